//! Public keys as PEM files hold them.

use super::base64::decode_pem;
use super::der;
use super::key::{Algorithms, Key, Material};

/// Reads every key of a PEM text.
pub(super) fn keys(text: &str, algorithms: Algorithms) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let broken = || "is damaged: a block has no end".to_string();
        let (label, after) = after.split_once("-----").ok_or_else(broken)?;
        let (body, after) = after.split_once(&format!("-----END {label}-----")).ok_or_else(broken)?;
        keys.push(Key::new(material(label, body)?, None, algorithms));
        rest = after;
    }
    if keys.is_empty() {
        return Err("holds no key; expected a PEM text with BEGIN PUBLIC KEY or BEGIN CERTIFICATE".into());
    }
    Ok(keys)
}

fn material(label: &str, body: &str) -> Result<Material, String> {
    let read = match label {
        "PUBLIC KEY" => der::public_key,
        "RSA PUBLIC KEY" => der::rsa_public_key,
        "CERTIFICATE" => der::certificate,
        _ if label.ends_with("PRIVATE KEY") => {
            return Err("holds a private key; give its public half (openssl pkey -pubout)".into());
        }
        _ => return Err("holds something other than a public key; expected PUBLIC KEY or CERTIFICATE".into()),
    };
    let der = decode_pem(body).ok_or("is damaged: it is not base64")?;
    read(&der)
}
