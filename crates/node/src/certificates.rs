//! Certificates from PEM files.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::path::Path;

/// All in the file, of which there must be one at least.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let found = read().map_err(|error| told(path, &error))?;
    if found.is_empty() { Err(told(path, &"there is no certificate in it")) } else { Ok(found) }
}

/// Authorities whose word is taken.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(path)? {
        roots.add(cert).map_err(|error| told(path, &error))?;
    }
    Ok(roots)
}

/// The authorities given, else those of the system.
pub(crate) fn authorities_or_systems(path: Option<&Path>) -> Result<RootCertStore, String> {
    if let Some(path) = path {
        return authorities(path);
    }
    let mut roots = RootCertStore::empty();
    for cert in rustls_native_certs::load_native_certs().certs {
        let _ = roots.add(cert); // One that cannot be read is not trusted, and that is all.
    }
    Ok(roots)
}

/// What is wrong, after the file it is wrong with.
pub(crate) fn told(path: &Path, what: &dyn Display) -> String {
    format!("{}: {what}", path.display())
}
