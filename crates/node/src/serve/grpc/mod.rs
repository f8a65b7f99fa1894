//! gRPC over HTTP/2: Envoy's rate limit service, health, reflection. The `h2` crate carries it; messages are read in
//! place (adr/0009).

mod call;
pub(crate) mod code;
mod connection;
mod frames;
mod health;
mod proto;
mod reflection;
mod rls;
mod rls_answer;
mod rls_request;

pub(crate) use connection::serve;

/// The methods there are, as metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    ShouldRateLimit,
    HealthCheck,
    HealthWatch,
    Reflection,
    /// Does nothing: what the others cost is measured against it.
    Empty,
    Unknown,
}

impl Method {
    pub const ALL: [Method; 6] = [
        Method::ShouldRateLimit,
        Method::HealthCheck,
        Method::HealthWatch,
        Method::Reflection,
        Method::Empty,
        Method::Unknown,
    ];

    pub fn of(path: &str) -> Method {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Method::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => Method::HealthCheck,
            "/grpc.health.v1.Health/Watch" => Method::HealthWatch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Method::Reflection,
            "/headgate.Bench/Empty" => Method::Empty,
            _ => Method::Unknown,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Method::ShouldRateLimit => "ShouldRateLimit",
            Method::HealthCheck => "Check",
            Method::HealthWatch => "Watch",
            Method::Reflection => "ServerReflectionInfo",
            Method::Empty => "Empty",
            Method::Unknown => "other",
        }
    }
}
