//! `grpc.health.v1.Health`: whether this node answers.

use super::code::Code;
use super::proto::{Fields, Value};
use super::reflection::RATE_LIMIT_SERVICE;

const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;
const SERVICE_UNKNOWN: u8 = 3;

/// A `HealthCheckResponse`: one field, one byte.
pub(crate) type Answer = [u8; 2];

/// Answers `Check`.
pub(crate) fn check(request: &[u8], is_ready: bool) -> Result<Answer, Code> {
    if is_known(request)? { Ok(status(is_ready)) } else { Err(Code::NotFound) }
}

/// What `Watch` says next. A service that is not known may come to be, so the call goes on.
pub(crate) fn watch(request: &[u8], is_ready: bool) -> Result<Answer, Code> {
    if is_known(request)? { Ok(status(is_ready)) } else { Ok([0x08, SERVICE_UNKNOWN]) }
}

fn status(is_ready: bool) -> Answer {
    [0x08, if is_ready { SERVING } else { NOT_SERVING }]
}

/// No name asks for the server as a whole.
fn is_known(request: &[u8]) -> Result<bool, Code> {
    let mut service: &[u8] = b"";
    for field in Fields::new(request) {
        match field {
            Ok((1, Value::Bytes(name))) => service = name,
            Ok((1, _)) | Err(_) => return Err(Code::InvalidArgument),
            Ok(_) => {}
        }
    }
    Ok(service.is_empty() || service == RATE_LIMIT_SERVICE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::proto::put_bytes;
    use super::*;

    fn asking_for(service: &str) -> Vec<u8> {
        let mut request = Vec::new();
        put_bytes(&mut request, 1, service.as_bytes());
        request
    }

    #[test]
    fn the_server_and_its_service_serve_while_ready() {
        for request in [vec![], asking_for(""), asking_for("envoy.service.ratelimit.v3.RateLimitService")] {
            assert_eq!(check(&request, true), Ok([0x08, 1]));
            assert_eq!(check(&request, false), Ok([0x08, 2]));
            assert_eq!(watch(&request, true), Ok([0x08, 1]));
            assert_eq!(watch(&request, false), Ok([0x08, 2]));
        }
    }

    #[test]
    fn another_service_is_not_found_and_may_still_be_watched() {
        let request = asking_for("envoy.service.ratelimit.v2.RateLimitService");
        assert_eq!(check(&request, true), Err(Code::NotFound));
        assert_eq!(watch(&request, true), Ok([0x08, 3]));
    }

    #[test]
    fn the_last_name_counts_and_unknown_fields_do_not() {
        let mut request = asking_for("nobody");
        request.extend([0x10, 0x01]);
        request.extend(asking_for(""));
        assert_eq!(check(&request, true), Ok([0x08, 1]));
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        for request in [&[0x0a, 9][..], &[0x08, 1], &[0xff]] {
            assert_eq!(check(request, true), Err(Code::InvalidArgument));
            assert_eq!(watch(request, true), Err(Code::InvalidArgument));
        }
    }
}
