//! The router's certificate as rustls wants it. It does not know files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The protocol's name in ALPN (PostgreSQL: pqcomm.h, PG_ALPN_PROTOCOL). Clients that begin with TLS, without an
/// SSLRequest, must say it.
pub(super) const ALPN_POSTGRESQL: &[u8] = b"postgresql";

/// For [`super::LoginConfig::tls`], from PEM: the certificate with its chain, and its private key.
///
/// # Errors
/// A sentence for people: nothing in it, or the two don't belong together.
pub fn server_config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .map_err(|e| format!("can't read the certificate: {e}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in the certificate file".into());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("can't read the private key: {e}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| format!("certificate and private key can't be used: {e}"))?;
    config.alpn_protocols = vec![ALPN_POSTGRESQL.to_vec()];
    Ok(Arc::new(config))
}
