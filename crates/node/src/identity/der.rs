//! As much of DER as it takes to find a public key: in a SubjectPublicKeyInfo, in a certificate, or by itself.

use super::key::Material;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

const CUT_SHORT: &str = "is damaged: its contents are no key";

/// A `SubjectPublicKeyInfo`, as `BEGIN PUBLIC KEY` holds.
pub(super) fn public_key(der: &[u8]) -> Result<Material, String> {
    let mut outer = Der(der);
    let info = outer.take(SEQUENCE)?;
    outer.end()?;
    spki(info)
}

/// The key of a certificate. Nothing else of it is looked at: whoever names the file vouches for it.
pub(super) fn certificate(der: &[u8]) -> Result<Material, String> {
    let mut outer = Der(der);
    let mut certificate = Der(outer.take(SEQUENCE)?);
    outer.end()?;
    let mut signed = Der(certificate.take(SEQUENCE)?);
    if signed.0.first() == Some(&VERSION) {
        signed.take(VERSION)?;
    }
    signed.take(INTEGER)?;
    for _signature_issuer_validity_subject in 0..4 {
        signed.take(SEQUENCE)?;
    }
    spki(signed.take(SEQUENCE)?)
}

/// A PKCS#1 `RSAPublicKey`, as `BEGIN RSA PUBLIC KEY` holds.
pub(super) fn rsa_public_key(der: &[u8]) -> Result<Material, String> {
    let mut outer = Der(der);
    let mut numbers = Der(outer.take(SEQUENCE)?);
    outer.end()?;
    let (n, e) = (numbers.take(INTEGER)?, numbers.take(INTEGER)?);
    numbers.end()?;
    Material::rsa(n, e)
}

fn spki(info: &[u8]) -> Result<Material, String> {
    let mut info = Der(info);
    let mut algorithm = Der(info.take(SEQUENCE)?);
    let bits = info.take(BIT_STRING)?;
    info.end()?;
    let key = bits.strip_prefix(&[0]).ok_or(CUT_SHORT)?;
    match algorithm.take(OBJECT_ID)? {
        RSA => rsa_public_key(key),
        ED25519 => Material::ed25519(key),
        EC => match algorithm.take(OBJECT_ID)? {
            P256 => Material::p256(key),
            P384 => Material::p384(key),
            _ => Err("is on a curve that is not supported; expected P-256 or P-384".into()),
        },
        _ => Err("is of a kind that is not supported; expected RSA, P-256, P-384 or Ed25519".into()),
    }
}

struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The contents of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Result<&'d [u8], String> {
        self.next(tag).ok_or_else(|| CUT_SHORT.to_string())
    }

    fn next(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            // Nothing we are given is longer than 16 MiB.
            long @ 0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(contents)
    }

    fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(CUT_SHORT.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_of_a_key_is_an_error_and_not_a_panic() {
        let mut key = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        key.extend([7; 32]);
        assert!(public_key(&key).is_ok());
        for length in 0..key.len() {
            assert!(public_key(&key[..length]).is_err(), "{length}");
            assert!(certificate(&key[..length]).is_err(), "{length}");
            assert!(rsa_public_key(&key[..length]).is_err(), "{length}");
        }
        for place in 0..12 {
            for value in 0..=255 {
                let mut changed = key.clone();
                changed[place] = value;
                let _ = (public_key(&changed).is_ok(), certificate(&changed).is_ok());
            }
        }
    }
}
