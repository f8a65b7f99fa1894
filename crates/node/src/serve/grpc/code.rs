//! What a gRPC call can end with.

/// The codes this server ends calls with, by their numbers on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Code {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl Code {
    pub const ALL: [Code; 8] = [
        Code::Ok,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::ResourceExhausted,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
    ];

    /// As `grpc-status` says it.
    pub fn text(self) -> &'static str {
        match self {
            Code::Ok => "0",
            Code::InvalidArgument => "3",
            Code::DeadlineExceeded => "4",
            Code::NotFound => "5",
            Code::ResourceExhausted => "8",
            Code::Unimplemented => "12",
            Code::Internal => "13",
            Code::Unavailable => "14",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn the_text_of_a_code_is_its_number() {
        use Code::*;
        for code in [Ok, InvalidArgument, DeadlineExceeded, NotFound, ResourceExhausted, Unimplemented, Internal] {
            assert_eq!(code.text(), (code as u8).to_string());
        }
        assert_eq!(Unavailable.text(), (Unavailable as u8).to_string());
    }
}
