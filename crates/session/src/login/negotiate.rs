//! The first packets: encryption, then a startup or a cancel request. It does not know what startup parameters mean,
//! except which of them extend the protocol. (PostgreSQL: backend_startup.c, ProcessStartupPacket.)

use std::sync::Arc;

use wire::startup::{PROTOCOL_3_2, Startup};
use wire::{WireError, backend};

use super::LoginError;
use super::channel::Channel;
use super::tls::ALPN_POSTGRESQL;

/// Parameters that begin with it extend the protocol. We know none.
const PROTOCOL_OPTION: &str = "_pq_.";

pub(super) enum Negotiated {
    Start {
        /// The version in force.
        version: u32,
        parameters: Vec<(String, String)>,
    },
    Cancel {
        pid: i32,
        secret: Vec<u8>,
    },
}

pub(super) async fn first_packets(
    channel: &mut Channel,
    tls: Option<&Arc<rustls::ServerConfig>>,
) -> Result<Negotiated, LoginError> {
    if channel.begins_with_tls().await? {
        let config = tls.ok_or(LoginError::NoTls)?;
        // Without it, an attacker could lead a browser's TLS connection here.
        if channel.start_tls(config).await?.as_deref() != Some(ALPN_POSTGRESQL) {
            return Err(LoginError::NoAlpn);
        }
    }
    let (mut asked_tls, mut asked_gss) = (channel.is_tls(), channel.is_tls());
    loop {
        match channel.startup_packet().await? {
            Startup::Ssl if !asked_tls => {
                asked_tls = true;
                refuse_more(channel, "SSL")?;
                answer(channel, if tls.is_some() { b'S' } else { b'N' }).await?;
                if let Some(config) = tls {
                    channel.start_tls(config).await?;
                    asked_gss = true;
                }
            }
            Startup::GssEnc if !asked_gss => {
                asked_gss = true;
                refuse_more(channel, "GSSAPI encryption")?;
                answer(channel, b'N').await?;
            }
            // Asked again, it is an unknown version, as in PostgreSQL.
            Startup::Ssl => return Err(WireError::Version { major: 1234, minor: 5679 }.into()),
            Startup::GssEnc => return Err(WireError::Version { major: 1234, minor: 5680 }.into()),
            Startup::Cancel { pid, secret } => return Ok(Negotiated::Cancel { pid, secret }),
            Startup::Start { version, parameters } => return negotiate_version(channel, version, parameters).await,
        }
    }
}

/// Nobody may send on before he knows how: what lies here unencrypted would be taken for what came encrypted
/// (CVE-2021-23222 was this, on the other side).
fn refuse_more(channel: &Channel, request: &'static str) -> Result<(), LoginError> {
    match channel.has_more() {
        true => Err(LoginError::Injected(request)),
        false => Ok(()),
    }
}

async fn answer(channel: &mut Channel, byte: u8) -> Result<(), LoginError> {
    channel.out().extend_from_slice(&[byte]);
    channel.flush().await
}

/// Settles for what we know if the client would like more.
async fn negotiate_version(
    channel: &mut Channel,
    asked: u32,
    parameters: Vec<(String, String)>,
) -> Result<Negotiated, LoginError> {
    let version = asked.min(PROTOCOL_3_2);
    let (unknown, parameters): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| name.starts_with(PROTOCOL_OPTION));
    if asked > version || !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().map(|(name, _)| &**name).collect();
        // The protocol's description calls this the newest minor version; what PostgreSQL sends and libpq expects is
        // the whole version, never above the one asked for.
        backend::negotiate_protocol(channel.out(), version, &names);
        channel.flush().await?;
    }
    Ok(Negotiated::Start { version, parameters })
}
