//! Logging in to a node: startup, authentication, first parameters. It does not know how the stream was made.

use bytes::BytesMut;
use wire::frame::Reader;
use wire::scram::{self, ClientScram};
use wire::sqlstate;
use wire::{ErrorFields, WireError, backend, put, startup};

use crate::conn::Conn;
use crate::error::PoolError;
use crate::target::{Login, NodeTarget, Secret};

/// The startup message.
pub(crate) fn startup_packet(target: &NodeTarget, login: &Login, more: &[(&str, &str)]) -> Result<BytesMut, PoolError> {
    let mut parameters = vec![("user", &*login.user), ("database", &*target.database)];
    parameters.extend_from_slice(more);
    // A zero byte would end a value early and make what follows another parameter.
    if parameters.iter().any(|(name, value)| name.is_empty() || name.contains('\0') || value.contains('\0')) {
        return Err(refused(target, sqlstate::PROTOCOL_VIOLATION, "a startup parameter is empty or holds a zero byte"));
    }
    let mut packet = BytesMut::new();
    startup::put_start(&mut packet, &parameters);
    Ok(packet)
}

fn refused(target: &NodeTarget, code: &str, message: &str) -> PoolError {
    PoolError::Auth { node: target.to_string(), error: Box::new(ErrorFields::fatal(code, message)) }
}

/// Authentication request codes (protocol.h, AUTH_REQ_*).
mod ask {
    pub const OK: i32 = 0;
    pub const CLEARTEXT: i32 = 3;
    pub const MD5: i32 = 5;
    pub const SASL: i32 = 10;
    pub const SASL_CONTINUE: i32 = 11;
    pub const SASL_FINAL: i32 = 12;
}

impl Conn {
    /// From the startup message sent to the first ReadyForQuery.
    pub(crate) async fn log_in(&mut self, login: &Login) -> Result<(), PoolError> {
        let (mut exchange, mut accepted) = (None, false);
        loop {
            let frame = self.frame().await?;
            match frame.tag() {
                b'R' if !accepted => accepted = self.authenticate(frame.body(), login, &mut exchange).await?,
                b'K' if accepted => {
                    let (pid, secret) = backend::parse_backend_key_data(frame.body())?;
                    (self.pid, self.cancel_secret) = (pid, secret.into());
                }
                b'E' => {
                    let mut error = ErrorFields::parse(frame.body())?;
                    if error.code() == sqlstate::INVALID_PASSWORD && error.get(b'H').is_none() {
                        error = error.hint(what_to_do(&self.target, login));
                    }
                    return Err(PoolError::Auth { node: self.target.to_string(), error: Box::new(error) });
                }
                b'Z' if accepted => {
                    self.proved |= matches!(exchange, Some(Exchange::Verified));
                    return Ok(());
                }
                // ParameterStatus is kept by frame(); notices (a password soon to expire) concern nobody here;
                // NegotiateProtocolVersion can't come, as we ask for nothing new.
                b'S' | b'N' | b'v' => {}
                // Also what comes before AuthenticationOk and must not: a server could skip proving itself that way.
                _ => return Err(WireError::Other("unexpected message while logging in").into()),
            }
        }
    }

    /// Answers one authentication request; true if it was AuthenticationOk.
    async fn authenticate(
        &mut self,
        body: &[u8],
        login: &Login,
        exchange: &mut Option<Exchange>,
    ) -> Result<bool, PoolError> {
        let mut request = Reader::new(body);
        let code = request.i32()?;
        // Once SCRAM has begun, only a server that proves to know the verifier may say OK.
        match (code, &exchange) {
            (ask::OK, None) if !self.target.require_auth.none => return Err(self.not_this_way("none")),
            (ask::OK, None | Some(Exchange::Verified | Exchange::Told)) => return Ok(true),
            (ask::SASL_CONTINUE | ask::SASL_FINAL, Some(Exchange::Running(_))) => {}
            (ask::CLEARTEXT, None) if !self.target.require_auth.password => return Err(self.not_this_way("password")),
            (ask::MD5, None) if !self.target.require_auth.md5 => return Err(self.not_this_way("md5")),
            (ask::SASL, None) if !self.target.require_auth.scram => return Err(self.not_this_way("scram-sha-256")),
            (ask::CLEARTEXT | ask::MD5 | ask::SASL, None) => {}
            (ask::OK..=ask::SASL_FINAL, Some(_)) | (ask::SASL_CONTINUE | ask::SASL_FINAL, None) => {
                return Err(WireError::Other("authentication message out of order").into());
            }
            _ => {
                let what = format!("node asks for authentication method {code}, which is not supported");
                return Err(refused(&self.target, sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, &what));
            }
        }
        let reply = match code {
            ask::CLEARTEXT if !self.stream.is_private() => {
                let why =
                    "node asks for a clear-text password over an unencrypted connection; use TLS or scram-sha-256";
                return Err(refused(&self.target, sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, why));
            }
            ask::CLEARTEXT => {
                *exchange = Some(Exchange::Told);
                terminated(self.password(login)?)
            }
            ask::MD5 => {
                *exchange = Some(Exchange::Told);
                let salt = request.bytes(4)?.try_into().expect("four bytes were asked for");
                terminated(&scram::md5_password(&login.user, self.password(login)?, salt))
            }
            ask::SASL => {
                let scram = self.begin_scram(request, login)?;
                let first = scram.first();
                *exchange = Some(Exchange::Running(scram));
                let mut reply = terminated(scram::MECHANISM);
                reply.extend_from_slice(&(first.len() as i32).to_be_bytes());
                reply.extend_from_slice(first.as_bytes());
                reply
            }
            _ => {
                let Some(Exchange::Running(mut scram)) = exchange.take() else {
                    return Err(WireError::Other("authentication message out of order").into());
                };
                let said = request.bytes(request.remaining())?;
                let said = String::from_utf8(said.to_vec()).map_err(|_| WireError::String)?;
                if code == ask::SASL_FINAL {
                    scram.verify(&said).map_err(|e| {
                        refused(&self.target, sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, &e.to_string())
                    })?;
                    *exchange = Some(Exchange::Verified);
                    return Ok(false);
                }
                // Thousands of hashes by design: not on a thread that serves others.
                let (scram, reply) = tokio::task::spawn_blocking(move || {
                    let reply = scram.handle_first(&said);
                    (scram, reply)
                })
                .await
                .map_err(|_| refused(&self.target, sqlstate::ADMIN_SHUTDOWN, "the router is shutting down"))?;
                let reply = reply.map_err(|e| {
                    refused(&self.target, sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, &e.to_string())
                })?;
                *exchange = Some(Exchange::Running(scram));
                reply.into_bytes()
            }
        };
        put::password(self.out(), &reply);
        self.flush().await?;
        Ok(false)
    }

    /// The node asks by a method that nobody has allowed it: it gets no answer.
    fn not_this_way(&self, method: &str) -> PoolError {
        let asks = match method {
            "none" => "lets the router in without authentication".to_string(),
            _ => format!("asks for authentication by {method}"),
        };
        let error = ErrorFields::fatal(
            sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
            format!("node {} {asks}, which require_auth does not allow", self.target),
        );
        let hint = format!(
            "Let it ask for scram-sha-256 in its pg_hba.conf (the role needs a SCRAM verifier: set its password anew), or, if it is \
             a server of yours that nobody can stand in for, name {method} in require_auth of `home` in herd.toml."
        );
        PoolError::Auth { node: self.target.to_string(), error: Box::new(error.hint(&hint)) }
    }

    fn password<'a>(&self, login: &'a Login) -> Result<&'a str, PoolError> {
        let why = match &login.secret {
            Secret::Password(password) if !password.contains('\0') => return Ok(password),
            Secret::Password(_) => "the password holds a zero byte",
            Secret::None => "node asks for a password, but none is known for this user",
            Secret::Keys { .. } => {
                "node asks for a password itself, but only SCRAM keys are known; use scram-sha-256 on the node"
            }
        };
        Err(refused(&self.target, sqlstate::INVALID_PASSWORD, why))
    }

    fn begin_scram(&self, mut mechanisms: Reader<'_>, login: &Login) -> Result<ClientScram, PoolError> {
        loop {
            match mechanisms.cstr()? {
                "" => {
                    return Err(refused(
                        &self.target,
                        sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                        "node offers no SASL mechanism we know",
                    ));
                }
                scram::MECHANISM => break,
                _ => {}
            }
        }
        let secret = match &login.secret {
            Secret::Keys { client_key, server_key } => {
                scram::Secret::Keys { client_key: *client_key, server_key: *server_key }
            }
            _ => scram::Secret::Password(self.password(login)?.into()),
        };
        Ok(ClientScram::new(secret, scram::nonce(rand::random())))
    }
}

/// For a password, or keys made of it, that a node does not take.
fn what_to_do(target: &NodeTarget, login: &Login) -> String {
    let user = &login.user;
    let keys = format!(
        "Every node needs the same SCRAM verifier of a role: set on {target} what home says, \
         ALTER ROLE \"{user}\" PASSWORD '…' with the text of SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'."
    );
    match login.secret {
        Secret::Keys { .. } => keys,
        _ => format!(
            "The router logs in to all nodes as home's user with home's password. If the password is right for home: {}",
            keys.replacen("Every", "every", 1)
        ),
    }
}

fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

enum Exchange {
    Running(ClientScram),
    Verified,
    /// A password was told, as it is or by MD5.
    Told,
}
