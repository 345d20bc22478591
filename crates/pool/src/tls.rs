//! TLS to a node: which certificates are believed. It does not know the protocol around it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::target::TlsMode;

/// A client configuration for `mode`, or `None` if it wants no TLS. The error is a sentence for people.
pub(crate) fn client_config(mode: &TlsMode) -> Result<Option<Arc<ClientConfig>>, String> {
    let provider = Arc::new(ring::default_provider());
    let (root, check) = match mode {
        TlsMode::Disable => return Ok(None),
        TlsMode::Prefer | TlsMode::Require => (None, Check::Nothing),
        TlsMode::VerifyCa { root } => (Some(root), Check::Chain),
        TlsMode::VerifyFull { root } => (Some(root), Check::ChainAndName),
    };
    let chain = match root {
        Some(root) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots(root)?.into(), provider.clone());
            Some(verifier.build().map_err(|e| e.to_string())?)
        }
        None => None,
    };
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        // "Dangerous" is rustls's word for choosing what to verify, which libpq's modes need.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { check, chain, provider }))
        .with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

fn roots(root: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if root == Path::new("system") {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(store);
    }
    let failed = |e: &dyn std::fmt::Display| format!("can't read root certificates from {}: {e}", root.display());
    let pem = std::fs::read(root).map_err(|e| failed(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        store.add(certificate.map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    }
    if store.is_empty() { Err(failed(&"there are none in it")) } else { Ok(store) }
}

#[derive(Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    Chain,
    ChainAndName,
}

#[derive(Debug)]
struct Verifier {
    check: Check,
    /// There for every check but `Nothing`.
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked after the chain, so whoever fails here has passed that.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Chain => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    // The handshake's signature is checked in every mode: that the peer holds the certificate's key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
