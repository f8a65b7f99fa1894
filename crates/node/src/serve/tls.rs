//! TLS of a server: one certificate for all its doors, swapped whole.

use crate::certificates::{authorities, certificates, told};
use arc_swap::ArcSwap;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the certificate, its key and the authority of clients are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Clients must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
}

/// What new connections go by. Those that are open keep what they began with.
pub(crate) struct Tls {
    files: TlsFiles,
    /// For doors that may be told who connects.
    mutual: ArcSwap<ServerConfig>,
    /// For the admin door: the same certificate, nothing asked of the client.
    plain: ArcSwap<ServerConfig>,
}

impl Tls {
    pub fn load(files: TlsFiles) -> io::Result<Self> {
        let (mutual, plain) = configs(&files).map_err(io::Error::other)?;
        Ok(Self { files, mutual: ArcSwap::new(mutual), plain: ArcSwap::new(plain) })
    }

    /// Reads the files again. On an error the old certificate goes on.
    pub fn reload(&self) -> Result<(), String> {
        let (mutual, plain) = configs(&self.files)?;
        self.mutual.store(mutual);
        self.plain.store(plain);
        Ok(())
    }

    pub fn config(&self, is_mutual: bool) -> Arc<ServerConfig> {
        if is_mutual { self.mutual.load_full() } else { self.plain.load_full() }
    }
}

fn configs(files: &TlsFiles) -> Result<(Arc<ServerConfig>, Arc<ServerConfig>), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.cert)?;
    let private = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| told(&files.key, &format_args!("no private key in PEM can be read from it: {error}")))?;
    let certified = CertifiedKey::from_der(chain.clone(), private.clone_key(), &provider).map_err(|error| {
        told(&files.cert, &format_args!("does not go with the key in {}: {error}", files.key.display()))
    })?;
    drop(certified);
    let config = |roots: Option<Arc<RootCertStore>>| {
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match roots {
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(chain.clone(), private.clone_key()).map_err(|error| told(&files.cert, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok::<_, String>(Arc::new(config))
    };
    let roots = files.client_ca.as_deref().map(authorities).transpose()?;
    Ok((config(roots.map(Arc::new))?, config(None)?))
}
