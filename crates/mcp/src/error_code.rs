//! The codes of JSON-RPC errors: its own, MCP's, and the one of ours.

macro_rules! codes {
    ($($(#[$attribute:meta])* $variant:ident = $number:literal,)+) => {
        /// What kind of error it is, as a number on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ErrorCode {
            $($(#[$attribute])* $variant,)+
        }

        impl ErrorCode {
            /// Every one, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The number.
            #[must_use]
            pub const fn as_i32(self) -> i32 {
                match self { $(Self::$variant => $number,)+ }
            }

            /// The number as it stands in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($number),)+ }
            }

            /// The code with this number; servers may use others.
            #[must_use]
            pub const fn parse(number: i64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Not JSON.
    ParseError = -32700,
    /// JSON, but no message that may be sent here.
    InvalidRequest = -32600,
    /// There is no such method here.
    MethodNotFound = -32601,
    /// The params are not what the method takes, or name nothing that there is.
    InvalidParams = -32602,
    /// It should have worked.
    InternalError = -32603,
    /// There is no such resource (legacy era).
    ResourceNotFound = -32002,
    /// The policy or a limit says no. Ours: MCP has no code for it.
    Denied = -32003,
    /// A header and the body say different things (modern era).
    HeaderMismatch = -32020,
    /// The client lacks a capability that the request needs (modern era).
    MissingCapability = -32021,
    /// The protocol version is none that is spoken here (modern era).
    UnsupportedVersion = -32022,
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_is_spelled_as_a_json_number() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_i32().into()), Some(*code));
            assert_eq!(code.as_str(), code.as_i32().to_string());
        }
        assert_eq!(ErrorCode::parse(-32000), None);
        assert_eq!(ErrorCode::parse(i64::from(i32::MAX) + 1), None);
    }
}
