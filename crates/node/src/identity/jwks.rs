//! Key sets (RFC 7517). A key that is meant for something else, or of a kind we do not know, is passed over, as the
//! standard asks; a set without any key for us is an error.

use super::base64::decode_url;
use super::jwt::KEYS_MAX;
use super::key::{Algorithm, Algorithms, Key, Material};
use super::strict_json::read_object;
use serde_json::{Map, Value};

/// The largest key set.
pub const JWKS_BYTES_MAX: usize = 1024 * 1024;
const KID_BYTES_MAX: usize = 1024;

/// Reads the keys of a set. Secrets in it are taken only if `with_secrets`: one that came over the network is no secret.
pub(super) fn keys(text: &str, algorithms: Algorithms, with_secrets: bool) -> Result<Vec<Key>, String> {
    if text.len() > JWKS_BYTES_MAX {
        return Err(format!("is larger than {JWKS_BYTES_MAX} bytes"));
    }
    let set = read_object(text.as_bytes()).ok_or("is not a key set: expected a JSON object with no member twice")?;
    let Some(Value::Array(items)) = set.get("keys") else {
        return Err("is not a key set: expected a list named `keys`".into());
    };
    if items.len() > KEYS_MAX {
        return Err(format!("holds {} keys; at most {KEYS_MAX} are taken", items.len()));
    }
    let mut keys = Vec::new();
    let mut passed_over = None;
    for item in items {
        match item.as_object().ok_or("is not an object".to_string()).and_then(|jwk| key(jwk, algorithms, with_secrets))
        {
            Ok(found) => keys.extend(found),
            Err(why) => passed_over = passed_over.or(Some(why)),
        }
    }
    if keys.is_empty() {
        let why = passed_over.map_or(String::new(), |why| format!("; the first one {why}"));
        return Err(format!("holds no key that tokens can be verified with{why}"));
    }
    Ok(keys)
}

fn key(jwk: &Map<String, Value>, algorithms: Algorithms, with_secrets: bool) -> Result<Vec<Key>, String> {
    if jwk.get("use").is_some_and(|purpose| purpose != "sig") {
        return Err("is not for signatures (`use`)".into());
    }
    let verifies = |ops: &Value| ops.as_array().is_some_and(|ops| ops.iter().any(|op| op == "verify"));
    if jwk.get("key_ops").is_some_and(|ops| !verifies(ops)) {
        return Err("is not for verifying (`key_ops`)".into());
    }
    let allowed = match jwk.get("alg") {
        None => algorithms,
        Some(name) => {
            let named = name.as_str().and_then(Algorithm::from_name).ok_or("is for an algorithm not known (`alg`)")?;
            Algorithms::of(&[named]).and(algorithms)
        }
    };
    let kid = match jwk.get("kid") {
        None => None,
        Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.as_str()),
        Some(_) => return Err("has a `kid` that is no text, or too long".into()),
    };
    let found = match text(jwk, "kty")? {
        "oct" if !with_secrets => return Err("is a secret, and those are taken from files only".into()),
        "oct" => Key::secrets(&bytes(jwk, "k")?, kid, allowed)?,
        "RSA" => vec![one(Material::rsa(&bytes(jwk, "n")?, &bytes(jwk, "e")?)?, kid, allowed)],
        "EC" => vec![one(elliptic(jwk)?, kid, allowed)],
        "OKP" if text(jwk, "crv")? == "Ed25519" => vec![one(Material::ed25519(&bytes(jwk, "x")?)?, kid, allowed)],
        _ => return Err("is of a kind that is not supported (`kty`, `crv`)".into()),
    };
    match found.iter().any(|key| !key.algorithms.is_empty()) {
        true => Ok(found),
        false => Err("is for an algorithm that is not allowed, or not its own (`alg`)".into()),
    }
}

fn one(material: Material, kid: Option<&str>, algorithms: Algorithms) -> Key {
    Key::new(material, kid.map(Box::from), algorithms)
}

fn elliptic(jwk: &Map<String, Value>) -> Result<Material, String> {
    let curve = text(jwk, "crv")?;
    let size = match curve {
        "P-256" => 32,
        "P-384" => 48,
        _ => return Err("is on a curve that is not supported (`crv`)".into()),
    };
    let (x, y) = (bytes(jwk, "x")?, bytes(jwk, "y")?);
    if x.len() != size || y.len() != size {
        return Err("has coordinates of the wrong length".into());
    }
    let point = [&[4], &x[..], &y[..]].concat();
    if curve == "P-256" { Material::p256(&point) } else { Material::p384(&point) }
}

fn text<'j>(jwk: &'j Map<String, Value>, name: &str) -> Result<&'j str, String> {
    jwk.get(name).and_then(Value::as_str).ok_or_else(|| format!("has no text `{name}`"))
}

fn bytes(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    decode_url(text(jwk, name)?.as_bytes()).ok_or_else(|| format!("has a `{name}` that is not base64url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn read(jwk: &str) -> Result<Vec<Key>, String> {
        keys(&format!(r#"{{"keys":[{jwk}]}}"#), Algorithms::ALL, true)
    }

    fn okp(more: &str) -> String {
        format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{X}"{more}}}"#)
    }

    #[test]
    fn keys_for_verifying_are_taken() {
        for more in ["", r#","use":"sig""#, r#","key_ops":["verify"]"#, r#","alg":"EdDSA","kid":"k""#, r#","d":"x""#] {
            assert_eq!(read(&okp(more)).unwrap().len(), 1, "{more}");
        }
    }

    #[test]
    fn keys_for_anything_else_are_passed_over() {
        for more in [
            r#","use":"enc""#,
            r#","use":7"#,
            r#","key_ops":["sign"]"#,
            r#","key_ops":"verify""#,
            r#","alg":"RS256""#,
            r#","alg":"none""#,
            r#","alg":"HS256""#,
            r#","alg":null"#,
            r#","kid":7"#,
        ] {
            assert!(read(&okp(more)).is_err(), "{more}");
            let among = format!("{},{}", okp(more), okp(""));
            assert_eq!(read(&among).unwrap().len(), 1, "{more}");
        }
        assert!(read(r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#).unwrap_err().contains("curve"));
        assert!(read(r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#).unwrap_err().contains("length"));
        assert!(read(r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#).unwrap_err().contains("17 bits"));
    }

    #[test]
    fn secrets_are_taken_from_files_only() {
        let oct = format!(r#"{{"keys":[{{"kty":"oct","k":"{SECRET}"}}]}}"#);
        assert_eq!(keys(&oct, Algorithms::ALL, true).unwrap().len(), 1);
        assert!(keys(&oct, Algorithms::ALL, false).unwrap_err().contains("files only"));
        assert!(read(r#"{"kty":"oct","k":"c2hvcnQ"}"#).unwrap_err().contains("too weak"));
    }

    #[test]
    fn what_is_no_key_set_is_told() {
        for wrong in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, r#"{"keys":[],"keys":[]}"#, r#"{"keys":[7]}"#]
        {
            assert!(keys(wrong, Algorithms::ALL, true).is_err(), "{wrong}");
        }
        assert!(read(&vec![okp(""); KEYS_MAX + 1].join(",")).unwrap_err().contains("at most 100"));
    }
}
