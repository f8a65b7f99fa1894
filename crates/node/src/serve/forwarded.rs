//! What a proxy tells of the request it holds: nginx in `X-Original-*`, Traefik and Caddy in `X-Forwarded-*`.

use super::head::HEADERS_MAX;
use super::problem::Problem;
use httparse::Header;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;

pub(crate) struct Forwarded<'a> {
    pub path: Option<Cow<'a, str>>,
    pub method: Option<Cow<'a, str>>,
    pub authorization: Option<&'a [u8]>,
    pub api_key: Option<&'a [u8]>,
    /// The values of `X-Forwarded-For`, in the order they came.
    pub forwarded_for: SmallVec<[&'a [u8]; 2]>,
}

/// Headers that may come once.
#[derive(Default)]
struct Single<'a> {
    original_uri: Option<&'a [u8]>,
    original_method: Option<&'a [u8]>,
    forwarded_uri: Option<&'a [u8]>,
    forwarded_method: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
    api_key: Option<&'a [u8]>,
}

/// Reads a head that was found well-formed before.
pub(crate) fn read<'a>(head: &'a [u8], api_key_header: &str) -> Result<Forwarded<'a>, Problem> {
    let mut headers: [MaybeUninit<Header<'_>>; HEADERS_MAX] = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    if request.parse_with_uninit_headers(head, &mut headers).is_err() {
        return Err(Problem::new(400, "this is not a request as HTTP/1.1 has it"));
    }
    let mut single = Single::default();
    let mut forwarded_for = SmallVec::new();
    for Header { name, value } in request.headers.iter() {
        // Some proxies cannot leave out a header their client did not send.
        if value.is_empty() {
            continue;
        }
        let slot = match name.len() {
            14 if name.eq_ignore_ascii_case("x-original-uri") => &mut single.original_uri,
            17 if name.eq_ignore_ascii_case("x-original-method") => &mut single.original_method,
            15 if name.eq_ignore_ascii_case("x-forwarded-uri") => &mut single.forwarded_uri,
            18 if name.eq_ignore_ascii_case("x-forwarded-method") => &mut single.forwarded_method,
            13 if name.eq_ignore_ascii_case("authorization") => &mut single.authorization,
            15 if name.eq_ignore_ascii_case("x-forwarded-for") => {
                forwarded_for.push(*value);
                continue;
            }
            _ if name.eq_ignore_ascii_case(api_key_header) => &mut single.api_key,
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(Problem::field(
                name.to_ascii_lowercase(),
                "sent more than once; the proxy must set it, not add to it",
            ));
        }
    }
    let uri = one_of("URI", single.original_uri, single.forwarded_uri)?;
    let method = one_of("Method", single.original_method, single.forwarded_method)?;
    Ok(Forwarded {
        path: uri.map(|uri| String::from_utf8_lossy(path_of(uri))),
        method: method.map(String::from_utf8_lossy),
        authorization: single.authorization,
        api_key: single.api_key,
        forwarded_for,
    })
}

/// A proxy sets one family and passes on what its client sent of the other: where they differ, one is a lie.
fn one_of<'a>(
    what: &str,
    original: Option<&'a [u8]>,
    forwarded: Option<&'a [u8]>,
) -> Result<Option<&'a [u8]>, Problem> {
    match (original, forwarded) {
        (Some(original), Some(forwarded)) if original != forwarded => {
            let detail = format!(
                "X-Original-{what} and X-Forwarded-{what} differ; the proxy must remove the one it does not set itself"
            );
            Err(Problem::new(400, detail))
        }
        (original, forwarded) => Ok(original.or(forwarded)),
    }
}

/// The path of a target, also of one written as a whole address.
fn path_of(uri: &[u8]) -> &[u8] {
    let path = uri.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| path.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    match scheme {
        Some(scheme) => {
            let rest = &path[scheme.len()..];
            rest.iter().position(|byte| *byte == b'/').map_or(b"/", |slash| &rest[slash..])
        }
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &str) -> Result<(Option<String>, Option<String>), Problem> {
        let head = format!("GET /v1/authorize HTTP/1.1\r\n{headers}\r\n");
        let read = read(head.as_bytes(), "x-api-key")?;
        Ok((read.path.map(Cow::into_owned), read.method.map(Cow::into_owned)))
    }

    #[test]
    fn both_families_are_read() {
        let expected = (Some("/a/b".to_string()), Some("POST".to_string()));
        for family in ["X-Original", "x-forwarded"] {
            let headers = format!("{family}-URI: /a/b?c=d\r\n{family}-METHOD: POST\r\n");
            assert_eq!(asked(&headers).unwrap(), expected);
        }
        assert_eq!(asked("x-forwarded-uri: https://h:1/a/b#c\r\nx-original-method: POST\r\n").unwrap(), expected);
        assert_eq!(asked("").unwrap(), (None, None));
    }

    #[test]
    fn a_family_that_differs_from_the_other_or_comes_twice_is_refused() {
        assert!(asked("x-original-uri: /a\r\nx-forwarded-uri: /a\r\n").is_ok());
        assert_eq!(asked("x-original-uri: /a\r\nx-forwarded-uri: /b\r\n").unwrap_err().status, 400);
        assert_eq!(asked("x-original-method: GET\r\nx-forwarded-method: PUT\r\n").unwrap_err().status, 400);
        assert_eq!(asked("x-original-uri: /a\r\nx-original-uri: /a\r\n").unwrap_err().status, 400);
    }
}
