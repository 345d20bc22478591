//! The SASL messages of a SCRAM-SHA-256 login. The cryptography is in `wire`; this does not know where verifiers are
//! kept. Unknown users go through the same exchange, against a verifier that nothing satisfies.

use exec::Found;
use pool::Secret;
use wire::frame::{HEADER_LEN, Reader};
use wire::scram::{self, MECHANISM, ScramError, ServerScram, Verifier};
use wire::{WireError, backend};

use super::channel::Channel;
use super::{LoginError, Roles};

/// As PostgreSQL's PG_MAX_SASL_MESSAGE_LENGTH: nobody has been let in yet.
const SASL_MESSAGE_MAX: usize = 1024;
/// AuthenticationSASLContinue and AuthenticationSASLFinal (protocol.h, AUTH_REQ_*).
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// Asks the client to prove that it is `user`. Gives what opens the nodes to it. The server-final-message is left in
/// the channel's buffer, to travel with AuthenticationOk.
pub(super) async fn authenticate(
    channel: &mut Channel,
    user: &str,
    mock_secret: &[u8; 32],
    roles: &impl Roles,
) -> Result<(Secret, Found), LoginError> {
    let stored = roles.find(user).await;
    let found = stored.map_err(|source| LoginError::Verifier { user: user.into(), source })?;
    let (verifier, lacking) = verifier(user, (mock_secret, roles.iterations()), found.as_ref());
    let server_key = verifier.server_key();
    let mut exchange = ServerScram::new(verifier, scram::nonce(rand::random()));
    let failed = |source| match source {
        ScramError::Proof => {
            LoginError::Password { user: user.into(), why: lacking.unwrap_or("the password is wrong") }
        }
        _ => LoginError::Scram { user: user.into(), source },
    };

    backend::auth_sasl(channel.out(), &[MECHANISM]);
    channel.flush().await?;
    let body = sasl_message(channel).await?;
    let server_first = exchange.handle_first(initial_response(&body)?).map_err(failed)?;

    backend::auth_sasl_data(channel.out(), SASL_CONTINUE, server_first.as_bytes());
    channel.flush().await?;
    let body = sasl_message(channel).await?;
    let (server_final, client_key) = exchange.handle_final(text(&body)?).map_err(failed)?;

    backend::auth_sasl_data(channel.out(), SASL_FINAL, server_final.as_bytes());
    // Nobody proves anything against a verifier that was made up.
    let found = found.ok_or(LoginError::Password { user: user.into(), why: "there is no such user" })?;
    Ok((Secret::Keys { client_key, server_key }, found))
}

/// The verifier to check against; with a mock one, why there is none.
fn verifier(user: &str, mock: (&[u8; 32], u32), found: Option<&Found>) -> (Verifier, Option<&'static str>) {
    let why = match found.map(|f| f.verifier.as_deref().map(Verifier::parse)) {
        Some(Some(Ok(verifier))) => return (verifier, None),
        Some(Some(Err(_))) => {
            "the stored password is no SCRAM-SHA-256 verifier; set it anew with password_encryption = scram-sha-256"
        }
        Some(None) => "the user has no password, or it has expired",
        None => "there is no such user",
    };
    (Verifier::mock(user, mock.0, mock.1), Some(why))
}

async fn sasl_message(channel: &mut Channel) -> Result<Vec<u8>, LoginError> {
    let frame = channel.frame(HEADER_LEN + SASL_MESSAGE_MAX).await?;
    match frame.tag() {
        b'p' => Ok(frame.body().to_vec()),
        other => Err(LoginError::NotSasl(other)),
    }
}

/// The client-first-message in a SASLInitialResponse.
fn initial_response(body: &[u8]) -> Result<&str, LoginError> {
    let mut r = Reader::new(body);
    if r.cstr()? != MECHANISM {
        return Err(LoginError::Mechanism);
    }
    // SASL allows none (-1), to be asked for again; in SCRAM the client always speaks first.
    let data = r.value()?.ok_or(WireError::Other("SASL initial response is missing"))?;
    r.end()?;
    text(data)
}

fn text(data: &[u8]) -> Result<&str, LoginError> {
    Ok(std::str::from_utf8(data).map_err(|_| WireError::String)?)
}
