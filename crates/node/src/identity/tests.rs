//! Tokens made by hand, good and bad. RSA keys and tokens of other libraries are tried in `tests/integration`.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW_S: u64 = 1_760_000_000;
const NOW_US: u64 = NOW_S * 1_000_000;

fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for nth in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * nth)) as usize & 63]));
        }
    }
    text
}

fn signed(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", encode(&signature))
}

fn hs256(header: &str, claims: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    signed(header, claims, |message| hmac::sign(&key, message).as_ref().to_vec())
}

fn token(claims: &str) -> String {
    hs256(r#"{"alg":"HS256"}"#, claims)
}

fn good() -> String {
    token(&format!(r#"{{"sub":"42","tier":"pro","org":7,"exp":{}}}"#, NOW_S + 60))
}

fn tokens(claims: Claims) -> Tokens {
    Tokens::new(&KeySources { secret: Some(SECRET), ..KeySources::default() }, claims, 100).unwrap()
}

fn identity(claims: Claims) -> Identity {
    Identity { tokens: Some(Arc::new(tokens(claims))), ..Identity::default() }
}

fn why(identity: &Identity, token: &str, now_us: u64) -> Option<Why> {
    let authorization = format!("Bearer {token}");
    let credentials = Credentials { authorization: Some(authorization.as_bytes()), api_key: None };
    match identity.identify(&credentials, now_us) {
        Who::Unverified(why) => Some(why),
        Who::Known(_) => None,
        Who::Anonymous => panic!("nobody looked at the token"),
    }
}

#[test]
fn a_good_token_tells_user_tier_and_org() {
    let identity = identity(Claims::default());
    for _seen_before in [false, true] {
        let authorization = format!("bearer  {}", good());
        let credentials = Credentials { authorization: Some(authorization.as_bytes()), api_key: None };
        let Who::Known(known) = identity.identify(&credentials, NOW_US) else { panic!() };
        assert_eq!(
            (known.user.as_deref(), known.tier.as_deref(), known.org.as_deref()),
            (Some("42"), Some("pro"), Some("7"))
        );
        assert_eq!(known.api_key, None);
    }
}

#[test]
fn what_is_not_for_us_is_ignored() {
    let knows_nobody = Identity::default();
    let all = Credentials { authorization: Some(b"Bearer x"), api_key: Some(b"x") };
    assert!(matches!(knows_nobody.identify(&all, NOW_US), Who::Anonymous));
    let identity = identity(Claims::default());
    for other in ["Basic dXNlcjpwYXNz", "Bearerx.y.z", "", "Bear", "Digest a=b"] {
        let credentials = Credentials { authorization: Some(other.as_bytes()), api_key: Some(b"x") };
        assert!(matches!(identity.identify(&credentials, NOW_US), Who::Anonymous), "{other}");
    }
}

#[test]
fn a_token_is_three_parts_in_strict_base64url_and_strict_json() {
    let identity = identity(Claims::default());
    let (good, times) = (good(), format!(r#""exp":{}"#, NOW_S + 60));
    assert_eq!(why(&identity, &good, NOW_US), None);
    let malformed = [
        String::new(),
        "a.b".into(),
        format!("{good}."),
        format!("{good}.x"),
        format!("{good}="),
        format!("{good} x"),
        good.replace('.', ".."),
        good.replacen('.', "=.", 1),
        hs256("[]", &format!("{{{times}}}")),
        hs256(r#"{"alg":"HS256","alg":"HS256"}"#, &format!("{{{times}}}")),
        hs256(r#"{"alg":["HS256"]}"#, &format!("{{{times}}}")),
        hs256("{}", &format!("{{{times}}}")),
        hs256(r#"{"alg":"HS256","kid":7}"#, &format!("{{{times}}}")),
        token(""),
        token("[]"),
        token(&format!(r#"{{"sub":"1","sub":"2",{times}}}"#)),
        token(&format!(r#"{{"sub":"1",{times},{times}}}"#)),
    ];
    for bad in &malformed {
        assert_eq!(why(&identity, bad, NOW_US), Some(Why::Malformed), "{bad}");
    }
    assert_eq!(why(&identity, &"x".repeat(TOKEN_BYTES_MAX + 1), NOW_US), Some(Why::TooLong));
}

#[test]
fn a_changed_token_or_another_algorithm_is_refused() {
    let identity = identity(Claims::default());
    let claims = format!(r#"{{"sub":"42","exp":{}}}"#, NOW_S + 60);
    let (good, other) = (token(&claims), token(&claims.replace("42", "43")));
    let parts = |token: &str| token.split('.').map(String::from).collect::<Vec<_>>();
    let mixed = format!("{}.{}.{}", parts(&good)[0], parts(&other)[1], parts(&good)[2]);
    assert_eq!(why(&identity, &mixed, NOW_US), Some(Why::Signature));
    let unsigned = format!("{}.{}.", parts(&good)[0], parts(&good)[1]);
    assert_eq!(why(&identity, &unsigned, NOW_US), Some(Why::Signature));
    for name in ["none", "None", "nOnE", "", "HS384", "RS256", "ES256", "EdDSA", "hs256", "HS256 "] {
        let header = format!(r#"{{"alg":"{name}"}}"#);
        assert_eq!(why(&identity, &hs256(&header, &claims), NOW_US), Some(Why::Algorithm), "{name}");
        assert_eq!(why(&identity, &signed(&header, &claims, |_| Vec::new()), NOW_US), Some(Why::Algorithm), "{name}");
    }
    for crit in [r#"["exp"]"#, "[]", "null", r#"["b64"],"b64":false"#] {
        let header = format!(r#"{{"alg":"HS256","crit":{crit}}}"#);
        assert_eq!(why(&identity, &hs256(&header, &claims), NOW_US), Some(Why::Critical), "{crit}");
    }
}

#[test]
fn times_are_numbers_and_are_kept_to_with_leeway() {
    let identity = identity(Claims::default());
    let at = |claims: &str, now_s: u64| why(&identity, &token(claims), now_s * 1_000_000);
    let expiring = format!(r#"{{"exp":{NOW_S}}}"#);
    assert_eq!(at(&expiring, NOW_S + 29), None);
    assert_eq!(at(&expiring, NOW_S + 30), Some(Why::Expired));
    let later = |name: &str| format!(r#"{{"exp":{},"{name}":{NOW_S}}}"#, NOW_S + 600);
    assert_eq!((at(&later("nbf"), NOW_S - 31), at(&later("nbf"), NOW_S - 30)), (Some(Why::NotYetValid), None));
    assert_eq!((at(&later("iat"), NOW_S - 31), at(&later("iat"), NOW_S - 30)), (Some(Why::IssuedLater), None));
    assert_eq!(at(&format!(r#"{{"exp":{NOW_S}.5}}"#), NOW_S), None);
    assert_eq!(at(r#"{"exp":-1}"#, NOW_S), Some(Why::Expired));
    assert_eq!(at(r#"{"exp":1e300}"#, NOW_S), None);
    assert_eq!(at(r#"{}"#, NOW_S), Some(Why::MissingClaim("exp".into())));
    for (name, value) in
        [("exp", "\"9999999999\""), ("exp", "null"), ("exp", "[9999999999]"), ("nbf", "\"0\""), ("iat", "{}")]
    {
        let claims = match name {
            "exp" => format!(r#"{{"exp":{value}}}"#),
            _ => format!(r#"{{"exp":9999999999,"{name}":{value}}}"#),
        };
        assert_eq!(at(&claims, NOW_S), Some(Why::BadClaim(name.into())), "{claims}");
    }
}

#[test]
fn issuer_audience_and_required_claims_are_checked_when_set() {
    let claims = Claims {
        issuers: vec!["https://a".into(), "https://b".into()],
        audiences: vec!["api".into()],
        required: vec!["/deep/claim".into()],
        ..Claims::default()
    };
    let identity = identity(claims);
    let with = |iss: &str, aud: &str, deep: &str| {
        why(&identity, &token(&format!(r#"{{"iss":{iss},"aud":{aud},"deep":{deep}}}"#)), 0)
    };
    let deep = r#"{"claim":1}"#;
    assert_eq!(with(r#""https://b""#, r#"["x","api"]"#, deep), None);
    assert_eq!(with(r#""https://a""#, r#""api""#, deep), None);
    for iss in [r#""https://c""#, r#""https://a/""#, "null", r#"["https://a"]"#] {
        assert_eq!(with(iss, r#""api""#, deep), Some(Why::WrongIssuer), "{iss}");
    }
    for aud in [r#""apis""#, "null", "[]", r#"["x"]"#, r#"["api",7]"#, r#"{"api":1}"#] {
        assert_eq!(with(r#""https://a""#, aud, deep), Some(Why::WrongAudience), "{aud}");
    }
    for missing in ["null", "{}", r#"{"claim":null}"#] {
        assert_eq!(with(r#""https://a""#, r#""api""#, missing), Some(Why::MissingClaim("/deep/claim".into())));
    }
}

#[test]
fn claims_that_cannot_be_facts_are_refused() {
    let names = Claims { tier: "/app/plan".into(), org: "https://acme/org".into(), ..Claims::default() };
    let identity = identity(names);
    let with = |user: &str, plan: &str| {
        let claims = format!(r#"{{"exp":9999999999,"sub":{user},"app":{{"plan":{plan}}},"https://acme/org":"o"}}"#);
        why(&identity, &token(&claims), NOW_US)
    };
    assert_eq!(with("-7", r#""pro""#), None);
    assert_eq!(with("null", "null"), None);
    let long = format!("\"{}\"", "x".repeat(1_025));
    for wrong in [r#""""#, r#""a\nb""#, r#""a\u0000""#, r#""\u0085""#, "1.5", "true", "[]", "{}", &long] {
        assert_eq!(with(wrong, r#""pro""#), Some(Why::BadClaim("sub".into())), "{wrong}");
        assert_eq!(with("1", wrong), Some(Why::BadClaim("/app/plan".into())), "{wrong}");
    }
}

#[test]
fn curves_and_ed25519_verify_only_their_own() {
    let random = SystemRandom::new();
    let jwk = |kty: &str, crv: &str, kid: &str, x: &[u8], y: Option<&[u8]>| {
        let y = y.map_or(String::new(), |y| format!(r#","y":"{}""#, encode(y)));
        format!(r#"{{"kty":"{kty}","crv":"{crv}","kid":"{kid}","x":"{}"{y}}}"#, encode(x))
    };
    let ed = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
    let curve = |how: &'static signature::EcdsaSigningAlgorithm| {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(how, pkcs8.as_ref(), &random).unwrap()
    };
    let p256 = curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING);
    let p384 = curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING);
    let (q256, q384) = (p256.public_key().as_ref(), p384.public_key().as_ref());
    let set = format!(
        r#"{{"keys":[{},{},{}]}}"#,
        jwk("OKP", "Ed25519", "ed", ed.public_key().as_ref(), None),
        jwk("EC", "P-256", "p256", &q256[1..33], Some(&q256[33..])),
        jwk("EC", "P-384", "p384", &q384[1..49], Some(&q384[49..])),
    );
    let sources = KeySources { jwks: Some(&set), jwks_is_remote: true, ..KeySources::default() };
    let tokens = Arc::new(Tokens::new(&sources, Claims::default(), 0).unwrap());
    let identity = Identity { tokens: Some(tokens.clone()), ..Identity::default() };
    let claims = r#"{"sub":"1","exp":9999999999}"#;
    let make = |alg: &str, kid: &str| {
        let header = format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#).replace(r#","kid":"""#, "");
        signed(&header, claims, |message| match alg {
            "ES256" => p256.sign(&random, message).unwrap().as_ref().to_vec(),
            "ES384" => p384.sign(&random, message).unwrap().as_ref().to_vec(),
            _ => ed.sign(message).as_ref().to_vec(),
        })
    };
    for (alg, kid) in
        [("ES256", "p256"), ("ES384", "p384"), ("EdDSA", "ed"), ("Ed25519", "ed"), ("ES256", ""), ("EdDSA", "")]
    {
        assert_eq!(why(&identity, &make(alg, kid), NOW_US), None, "{alg} {kid}");
    }
    assert_eq!(why(&identity, &make("ES256", "p384"), NOW_US), Some(Why::Algorithm));
    assert!(!tokens.take_keys_wanted());
    for unknown in ["other", "../../ed", "ed' OR '1'='1"] {
        assert_eq!(why(&identity, &make("EdDSA", unknown), NOW_US), Some(Why::NoKey));
        assert!(tokens.take_keys_wanted() && !tokens.take_keys_wanted());
    }
    let secret = digest::digest(&digest::SHA256, ed.public_key().as_ref());
    let confused = signed(r#"{"alg":"HS256","kid":"ed"}"#, claims, |message| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref()), message).as_ref().to_vec()
    });
    assert_eq!(why(&identity, &confused, NOW_US), Some(Why::Algorithm));
}

#[test]
fn a_key_id_is_ignored_where_no_key_has_one() {
    let identity = identity(Claims::default());
    let token = hs256(r#"{"alg":"HS256","kid":"../../etc/passwd"}"#, r#"{"exp":9999999999}"#);
    assert_eq!(why(&identity, &token, NOW_US), None);
}

#[test]
fn a_remembered_token_ends_when_it_would_have() {
    let identity = identity(Claims::default());
    let token = token(&format!(r#"{{"exp":{}}}"#, NOW_S + 10));
    assert_eq!(why(&identity, &token, NOW_US), None);
    assert_eq!(why(&identity, &token, NOW_US + 39_999_999), None);
    assert_eq!(why(&identity, &token, NOW_US + 40_000_000), Some(Why::Expired));
}

#[test]
fn a_token_and_a_key_must_both_be_good_and_the_key_knows_the_tier() {
    let value = "hgk_a_secret";
    let digest: [u8; 32] =
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), value.as_bytes()).as_ref().try_into().unwrap();
    let mut keys = ApiKeysBuilder::new(SECRET).unwrap();
    keys.add(&KeyEntry {
        id: "a",
        digest,
        user: Some("of-key"),
        org: Some("key-org"),
        tier: Some("gold"),
        ..KeyEntry::default()
    })
    .unwrap();
    let identity = Identity { api_keys: Some(Arc::new(keys.finish().unwrap())), ..identity(Claims::default()) };
    let ask = |authorization: &str, key: &str| {
        let credentials = Credentials { authorization: Some(authorization.as_bytes()), api_key: Some(key.as_bytes()) };
        identity.identify(&credentials, NOW_US)
    };
    let good = format!("Bearer {}", good());
    let Who::Known(known) = ask(&good, value) else { panic!() };
    let texts = [&known.user, &known.tier, &known.org, &known.api_key].map(|text| text.as_deref().unwrap_or_default());
    assert_eq!(texts, ["42", "gold", "7", "a"]);
    let Who::Known(known) = ask("Basic x", value) else { panic!() };
    assert_eq!((known.user.as_deref(), known.org.as_deref()), (Some("of-key"), Some("key-org")));
    assert!(matches!(ask(&good, "other"), Who::Unverified(Why::UnknownApiKey)));
    assert!(matches!(ask("Bearer x", value), Who::Unverified(Why::Malformed)));
    assert!(matches!(ask(&good, ""), Who::Unverified(Why::UnknownApiKey)));
}

#[test]
fn nothing_of_a_token_or_secret_is_shown() {
    let identity = identity(Claims::default());
    let shown = format!("{identity:?} {:?}", why(&identity, "eyJSECRET.x.y", NOW_US));
    assert!(!shown.contains("SECRET") && !shown.contains("0123456789"), "{shown}");
}

#[test]
fn sources_without_use_are_told_at_the_start() {
    let error = |sources: KeySources<'_>| Tokens::new(&sources, Claims::default(), 0).unwrap_err();
    let weak = KeySources { secret: Some(b"hunter2"), ..KeySources::default() };
    assert!(error(weak).starts_with("jwt_secret: is too weak: 7 bytes"));
    let other = KeySources { secret: Some(SECRET), algorithms: &["RS256"], ..KeySources::default() };
    assert!(error(other).contains("of no use"));
    let none = KeySources { secret: Some(SECRET), algorithms: &["none"], ..KeySources::default() };
    assert!(error(none).starts_with("jwt_algorithms: `none` is not one of"));
    for (pem, words) in [
        ("", "holds no key"),
        ("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----", "private key"),
        ("-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----", "damaged"),
        ("-----BEGIN PUBLIC KEY-----\nA!\n-----END PUBLIC KEY-----", "not base64"),
        ("-----BEGIN PUBLIC KEY-----\nAA==", "no end"),
        ("-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----", "other than a public key"),
    ] {
        let found = error(KeySources { public_keys: &[pem], ..KeySources::default() });
        assert!(found.starts_with("jwt_public_key: ") && found.contains(words), "{found}");
    }
}
