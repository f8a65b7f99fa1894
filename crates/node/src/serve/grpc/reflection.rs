//! `grpc.reflection.v1.ServerReflection` and v1alpha, which say the same on the wire: what this server can be asked.
//!
//! The descriptors are made by `tools/descriptors.py` and looked through anew for each question: they are few, and
//! people ask, not proxies.

use super::code::Code;
use super::proto::{Fields, Garbage, Value, put_bytes, put_message, put_number};

pub(crate) const RATE_LIMIT_SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// A `FileDescriptorSet`, each file after those it imports.
static DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

/// What a `ServerReflectionRequest` asks, in the fields of its oneof.
enum Question<'a> {
    FileByName(&'a [u8]),
    FileWithSymbol(&'a [u8]),
    ListServices,
    /// Nothing served has extensions.
    Extension,
    Nothing,
}

/// Appends the `ServerReflectionResponse` to one `ServerReflectionRequest`.
pub(crate) fn answer(request: &[u8], out: &mut Vec<u8>) {
    let Ok((host, question)) = read(request) else {
        return put_error(out, Code::InvalidArgument, "not a ServerReflectionRequest");
    };
    put_bytes(out, 1, host);
    put_bytes(out, 2, request);
    match question {
        Question::FileByName(name) => put_file(out, find(|file| file.name == name), "no such file"),
        Question::FileWithSymbol(symbol) => put_file(out, find(|file| file.defines(symbol)), "no such symbol"),
        Question::ListServices => put_message(out, 6, |out| {
            for service in files().flat_map(|file| file.services().map(move |service| file.full_name(service))) {
                put_message(out, 1, |out| put_bytes(out, 1, &service));
            }
        }),
        Question::Extension => put_error(out, Code::NotFound, "nothing here has extensions"),
        Question::Nothing => put_error(out, Code::InvalidArgument, "the request asks nothing"),
    }
}

fn read(request: &[u8]) -> Result<(&[u8], Question<'_>), Garbage> {
    let (mut host, mut question): (&[u8], _) = (b"", Question::Nothing);
    for field in Fields::new(request) {
        match field? {
            (1, Value::Bytes(name)) => host = name,
            (3, Value::Bytes(name)) => question = Question::FileByName(name),
            (4, Value::Bytes(symbol)) => question = Question::FileWithSymbol(symbol),
            (5 | 6, Value::Bytes(_)) => question = Question::Extension,
            (7, Value::Bytes(_)) => question = Question::ListServices,
            (1 | 3..=7, _) => return Err(Garbage),
            _ => {}
        }
    }
    Ok((host, question))
}

fn put_error(out: &mut Vec<u8>, code: Code, what: &str) {
    put_message(out, 7, |out| {
        put_number(out, 1, code as u64);
        put_bytes(out, 2, what.as_bytes());
    });
}

/// The file and all it imports: many clients do not ask for those.
fn put_file(out: &mut Vec<u8>, file: Option<File>, what: &str) {
    let Some(file) = file else { return put_error(out, Code::NotFound, what) };
    let mut needed = vec![file];
    let mut next = 0;
    while let Some(&file) = needed.get(next) {
        for name in texts(file.bytes, 3) {
            if !needed.iter().any(|known| known.name == name) {
                needed.extend(find(|file| file.name == name));
            }
        }
        next += 1;
    }
    put_message(out, 4, |out| needed.iter().for_each(|file| put_bytes(out, 1, file.bytes)));
}

/// One `FileDescriptorProto`.
#[derive(Clone, Copy)]
struct File {
    bytes: &'static [u8],
    name: &'static [u8],
    package: &'static [u8],
}

fn files() -> impl Iterator<Item = File> {
    texts(DESCRIPTORS, 1).map(|bytes| File { bytes, name: text(bytes, 1), package: text(bytes, 2) })
}

fn find(wanted: impl Fn(&File) -> bool) -> Option<File> {
    files().find(wanted)
}

impl File {
    fn services(self) -> impl Iterator<Item = &'static [u8]> {
        texts(self.bytes, 6).map(|service| text(service, 1))
    }

    fn full_name(self, name: &[u8]) -> Vec<u8> {
        [self.package, name].join(&b'.')
    }

    fn defines(&self, symbol: &[u8]) -> bool {
        let Some(name) = after(symbol, self.package) else { return false };
        texts(self.bytes, 4).any(|message| message_defines(message, name))
            || texts(self.bytes, 5).any(|item| text(item, 1) == name)
            || texts(self.bytes, 6).any(|service| service_defines(service, name))
    }
}

fn message_defines(message: &'static [u8], name: &[u8]) -> bool {
    let own = text(message, 1);
    own == name
        || after(name, own).is_some_and(|name| {
            texts(message, 3).any(|nested| message_defines(nested, name))
                || texts(message, 2).chain(texts(message, 4)).any(|item| text(item, 1) == name)
        })
}

fn service_defines(service: &'static [u8], name: &[u8]) -> bool {
    let own = text(service, 1);
    own == name || after(name, own).is_some_and(|name| texts(service, 2).any(|method| text(method, 1) == name))
}

/// What of `name` is left inside `scope`.
fn after<'a>(name: &'a [u8], scope: &[u8]) -> Option<&'a [u8]> {
    name.strip_prefix(scope)?.strip_prefix(b".")
}

/// The values of a field that may be repeated.
fn texts(message: &'static [u8], wanted: u32) -> impl Iterator<Item = &'static [u8]> {
    Fields::new(message).filter_map(move |field| match field {
        Ok((number, Value::Bytes(value))) if number == wanted => Some(value),
        _ => None,
    })
}

fn text(message: &'static [u8], wanted: u32) -> &'static [u8] {
    texts(message, wanted).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RLS_FILE: &str = "envoy/service/ratelimit/v3/rls.proto";

    fn asked(field: u32, value: &str) -> (Vec<u8>, Vec<u8>) {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        put_bytes(&mut request, 1, b"somewhere");
        put_bytes(&mut request, field, value.as_bytes());
        answer(&request, &mut out);
        (request, out)
    }

    fn parts(message: &[u8], wanted: u32) -> Vec<&[u8]> {
        let bytes = |field| match field {
            Ok((number, Value::Bytes(value))) if number == wanted => Some(value),
            Ok(_) => None,
            Err(error) => panic!("{error:?}"),
        };
        Fields::new(message).filter_map(bytes).collect()
    }

    fn file_names(response: &[u8]) -> Vec<String> {
        let [found] = parts(response, 4)[..] else { return vec![] };
        parts(found, 1).iter().map(|file| String::from_utf8(parts(file, 1)[0].to_vec()).unwrap()).collect()
    }

    fn error_code(response: &[u8]) -> Option<Value<'_>> {
        let [error] = parts(response, 7)[..] else { return None };
        Fields::new(error).find_map(|field| field.ok().filter(|(number, _)| *number == 1)).map(|(_, value)| value)
    }

    #[test]
    fn services_are_listed_by_their_full_names() {
        let (request, response) = asked(7, "");
        assert_eq!(parts(&response, 1), [b"somewhere"]);
        assert_eq!(parts(&response, 2), [&request[..]]);
        let [list] = parts(&response, 6)[..] else { panic!("{response:?}") };
        let names: Vec<&str> =
            parts(list, 1).iter().map(|service| str::from_utf8(parts(service, 1)[0]).unwrap()).collect();
        let expected = [
            RATE_LIMIT_SERVICE,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_file_comes_first_and_with_all_it_imports() {
        let (_, response) = asked(3, RLS_FILE);
        let names = file_names(&response);
        assert_eq!(names[0], RLS_FILE);
        for file in parts(parts(&response, 4)[0], 1) {
            for import in parts(file, 3) {
                assert!(names.iter().any(|name| name.as_bytes() == import), "{import:?} is missing");
            }
        }
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn services_methods_messages_fields_and_enums_are_found() {
        for (symbol, file) in [
            ("envoy.service.ratelimit.v3.RateLimitService", RLS_FILE),
            ("envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit", RLS_FILE),
            ("envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus", RLS_FILE),
            ("envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit", RLS_FILE),
            ("envoy.service.ratelimit.v3.RateLimitRequest.hits_addend", RLS_FILE),
            ("envoy.type.v3.RateLimitUnit", "envoy/type/v3/ratelimit_unit.proto"),
            ("envoy.config.core.v3.HeaderValue", "envoy/config/core/v3/base.proto"),
            ("google.protobuf.Duration", "google/protobuf/duration.proto"),
            ("grpc.health.v1.Health", "grpc/health/v1/health.proto"),
            ("grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"),
            ("grpc.reflection.v1alpha.ServerReflectionRequest", "grpc/reflection/v1alpha/reflection.proto"),
        ] {
            assert_eq!(file_names(&asked(4, symbol).1).first().map(String::as_str), Some(file), "{symbol}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for (field, value) in [
            (3, "envoy/service/ratelimit/v3/rls"),
            (3, ""),
            (4, ""),
            (4, "envoy.service.ratelimit.v3"),
            (4, "envoy.service.ratelimit.v3."),
            (4, "envoy.service.ratelimit.v3.RateLimitService.Should"),
            (4, "envoy.service.ratelimit.v3.RateLimitServiceX"),
            (4, "envoy.config.core.v3.Node"),
            (5, ""),
            (6, "envoy.service.ratelimit.v3.RateLimitRequest"),
        ] {
            let (request, response) = asked(field, value);
            assert_eq!(error_code(&response), Some(Value::Varint(5)), "{field} {value}");
            assert_eq!(parts(&response, 2), [&request[..]]);
        }
    }

    #[test]
    fn what_asks_nothing_or_is_garbage_is_told_so() {
        for request in [&[][..], &[0x0a, 0x00], &[0xff], &[0x18, 0x01], &[0x1a, 0x05]] {
            let mut out = Vec::new();
            answer(request, &mut out);
            assert_eq!(error_code(&out), Some(Value::Varint(3)), "{request:?}");
        }
    }

    #[test]
    fn every_import_is_among_the_descriptors_and_they_stay_small() {
        assert!(DESCRIPTORS.len() < 10_000);
        assert!(Fields::new(DESCRIPTORS).all(|field| matches!(field, Ok((1, Value::Bytes(_))))));
        for file in files() {
            for import in texts(file.bytes, 3) {
                assert!(find(|other| other.name == import).is_some(), "{import:?}");
            }
        }
    }
}
