//! Keys that tokens are verified with. What a key may be used for is the key's own, never the token's word.

use ring::hmac;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use std::fmt;

const RSA_BITS_MIN: usize = 2_048;
const RSA_BITS_MAX: usize = 8_192;
/// Public exponents beyond this are of no use and slow.
const RSA_EXPONENT_MAX: u64 = (1 << 33) - 1;
/// The longest secret: more is a mistake, such as a whole file of something else.
const SECRET_BYTES_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub const ALL: [(Algorithm, &'static str); 12] = [
        (Algorithm::Hs256, "HS256"),
        (Algorithm::Hs384, "HS384"),
        (Algorithm::Hs512, "HS512"),
        (Algorithm::Rs256, "RS256"),
        (Algorithm::Rs384, "RS384"),
        (Algorithm::Rs512, "RS512"),
        (Algorithm::Ps256, "PS256"),
        (Algorithm::Ps384, "PS384"),
        (Algorithm::Ps512, "PS512"),
        (Algorithm::Es256, "ES256"),
        (Algorithm::Es384, "ES384"),
        (Algorithm::EdDsa, "EdDSA"),
    ];

    pub fn from_name(name: &str) -> Option<Algorithm> {
        // RFC 9864 gives EdDSA with this curve a name of its own.
        if name == "Ed25519" {
            return Some(Algorithm::EdDsa);
        }
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A set of algorithms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Algorithms(u16);

impl Algorithms {
    pub const ALL: Algorithms = Algorithms(0x0fff);

    pub fn of(algorithms: &[Algorithm]) -> Algorithms {
        Algorithms(algorithms.iter().fold(0, |set, algorithm| set | 1 << *algorithm as u8))
    }

    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Algorithms, String> {
        let known = || Algorithm::ALL.map(|(_, name)| name).join(", ");
        let one = |name: &str| {
            Algorithm::from_name(name).ok_or_else(|| format!("`{name}` is not one of {}; there is no other", known()))
        };
        Ok(Algorithms::of(&names.into_iter().map(one).collect::<Result<Vec<_>, _>>()?))
    }

    #[inline]
    pub fn has(self, algorithm: Algorithm) -> bool {
        self.0 & (1 << algorithm as u8) != 0
    }

    pub fn and(self, other: Algorithms) -> Algorithms {
        Algorithms(self.0 & other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// One key, and what it may verify.
pub(super) struct Key {
    pub kid: Option<Box<str>>,
    pub algorithms: Algorithms,
    material: Material,
}

/// A key as bytes that were looked over once.
pub(super) enum Material {
    Secret { key: hmac::Key, algorithm: Algorithm },
    Rsa { n: Box<[u8]>, e: Box<[u8]> },
    P256(Box<[u8]>),
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
}

impl Key {
    /// `algorithms` narrows what the kind of key allows.
    pub fn new(material: Material, kid: Option<Box<str>>, algorithms: Algorithms) -> Key {
        Key { kid, algorithms: material.algorithms().and(algorithms), material }
    }

    /// A secret verifies what it is long enough for: a key shorter than its hash is the weakest part (RFC 7518, 3.2).
    pub fn secrets(secret: &[u8], kid: Option<&str>, algorithms: Algorithms) -> Result<Vec<Key>, String> {
        if secret.trim_ascii_start().starts_with(b"-----BEGIN") {
            return Err("is a PEM file, not a secret; a public key taken for a secret would let anyone sign".into());
        }
        if secret.len() > SECRET_BYTES_MAX {
            return Err(format!("is longer than {SECRET_BYTES_MAX} bytes; this cannot be a secret"));
        }
        let mut keys = Vec::new();
        for (algorithm, hash, bytes_min) in [
            (Algorithm::Hs256, hmac::HMAC_SHA256, 32),
            (Algorithm::Hs384, hmac::HMAC_SHA384, 48),
            (Algorithm::Hs512, hmac::HMAC_SHA512, 64),
        ] {
            if !algorithms.has(algorithm) {
                continue;
            }
            if secret.len() >= bytes_min {
                let material = Material::Secret { key: hmac::Key::new(hash, secret), algorithm };
                keys.push(Key::new(material, kid.map(Box::from), algorithms));
            } else if algorithm == Algorithm::Hs256 || algorithms != Algorithms::ALL {
                // Unless algorithms were named, a secret simply does not serve for those it is too short for.
                return Err(too_weak(secret.len(), algorithm, bytes_min));
            }
        }
        Ok(keys)
    }

    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.algorithms.has(algorithm) && self.material.verifies(algorithm, message, signature)
    }
}

fn too_weak(len: usize, algorithm: Algorithm, bytes_min: usize) -> String {
    let name = algorithm.name();
    format!("is too weak: {len} bytes, and {name} needs at least {bytes_min} (openssl rand -hex {bytes_min})")
}

impl Material {
    pub fn rsa(n: &[u8], e: &[u8]) -> Result<Material, String> {
        let (n, e) = (without_zeros(n), without_zeros(e));
        let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(format!("is an RSA key of {bits} bits; expected {RSA_BITS_MIN} to {RSA_BITS_MAX}"));
        }
        let exponent = e.iter().try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)));
        let is_right = exponent.is_some_and(|e| (3..=RSA_EXPONENT_MAX).contains(&e) && e % 2 == 1);
        if !is_right || n.last().is_none_or(|last| last % 2 == 0) {
            return Err("is no RSA key: its numbers cannot be".into());
        }
        Ok(Material::Rsa { n: n.into(), e: e.into() })
    }

    pub fn p256(point: &[u8]) -> Result<Material, String> {
        Ok(Material::P256(uncompressed(point, 32)?))
    }

    pub fn p384(point: &[u8]) -> Result<Material, String> {
        Ok(Material::P384(uncompressed(point, 48)?))
    }

    pub fn ed25519(key: &[u8]) -> Result<Material, String> {
        if key.len() != 32 {
            return Err("is no Ed25519 key: it must have 32 bytes".into());
        }
        Ok(Material::Ed25519(key.into()))
    }

    fn algorithms(&self) -> Algorithms {
        use Algorithm::*;
        Algorithms::of(match self {
            Material::Secret { algorithm, .. } => std::slice::from_ref(algorithm),
            Material::Rsa { .. } => &[Rs256, Rs384, Rs512, Ps256, Ps384, Ps512],
            Material::P256(_) => &[Es256],
            Material::P384(_) => &[Es384],
            Material::Ed25519(_) => &[EdDsa],
        })
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Material::Secret { key, algorithm: own } => {
                *own == algorithm && hmac::verify(key, message, signature).is_ok()
            }
            Material::Rsa { n, e } => rsa_parameters(algorithm)
                .is_some_and(|rsa| RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).is_ok()),
            Material::P256(key) => verify(&signature::ECDSA_P256_SHA256_FIXED, key, message, signature),
            Material::P384(key) => verify(&signature::ECDSA_P384_SHA384_FIXED, key, message, signature),
            Material::Ed25519(key) => verify(&signature::ED25519, key, message, signature),
        }
    }
}

/// Neither a secret nor a public key belongs in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn verify(how: &'static dyn VerificationAlgorithm, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(how, key).verify(message, signature).is_ok()
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

fn uncompressed(point: &[u8], bytes: usize) -> Result<Box<[u8]>, String> {
    if point.len() != 1 + 2 * bytes || point[0] != 4 {
        return Err("is no point of its curve in the uncompressed form".into());
    }
    Ok(point.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(keys: &[Key]) -> Vec<&'static str> {
        let of = |key: &Key| Algorithm::ALL.iter().filter(|(a, _)| key.algorithms.has(*a)).map(|(_, n)| *n).collect();
        keys.iter().flat_map(|key| -> Vec<&'static str> { of(key) }).collect()
    }

    #[test]
    fn a_secret_verifies_only_what_it_is_long_enough_for() {
        let all = |len: usize| names(&Key::secrets(&vec![7; len], None, Algorithms::ALL).unwrap());
        assert_eq!(all(32), ["HS256"]);
        assert_eq!(all(48), ["HS256", "HS384"]);
        assert_eq!(all(64), ["HS256", "HS384", "HS512"]);
    }

    #[test]
    fn a_weak_secret_is_refused() {
        let hs512 = Algorithms::parse(["HS512"]).unwrap();
        assert!(Key::secrets(&[7; 31], None, Algorithms::ALL).unwrap_err().contains("at least 32"));
        assert!(Key::secrets(&[7; 63], None, hs512).unwrap_err().contains("HS512 needs at least 64"));
        assert!(Key::secrets(&[], None, Algorithms::ALL).is_err());
        assert_eq!(names(&Key::secrets(&[7; 64], None, hs512).unwrap()), ["HS512"]);
    }

    #[test]
    fn a_public_key_is_never_taken_for_a_secret() {
        let pem = format!("\n-----BEGIN PUBLIC KEY-----\n{}", "A".repeat(64));
        assert!(Key::secrets(pem.as_bytes(), None, Algorithms::ALL).unwrap_err().contains("PEM"));
    }

    #[test]
    fn small_or_impossible_rsa_keys_are_refused() {
        assert!(Material::rsa(&[0xff; 128], &[1, 0, 1]).err().unwrap().contains("1024 bits"));
        assert!(Material::rsa(&[0xff; 2_048], &[1, 0, 1]).is_err());
        for exponent in [&[][..], &[1], &[2], &[1, 0, 0], &[0xff; 9]] {
            assert!(Material::rsa(&[0xff; 256], exponent).is_err(), "{exponent:?}");
        }
        assert!(Material::rsa(&[0xff; 256], &[1, 0, 1]).is_ok());
        let mut with_sign = vec![0];
        with_sign.extend([0xff; 256]);
        assert!(Material::rsa(&with_sign, &[1, 0, 1]).is_ok());
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let keys = Key::secrets(&[65; 32], None, Algorithms::ALL).unwrap();
        assert_eq!(format!("{keys:?}"), "[Key]");
    }

    #[test]
    fn none_is_no_algorithm() {
        for name in ["none", "None", "NONE", "hs256", "", "HS256 "] {
            assert!(Algorithm::from_name(name).is_none(), "{name}");
        }
    }
}
