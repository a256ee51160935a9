//! Why a server's credential cannot be had. None of these repeats what anybody sent.

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unavailable {
    /// What the caller showed cannot be exchanged: a token of the gateway's own, a certificate, or nothing.
    #[error("what the caller showed cannot be exchanged")]
    NotExchangeable,
    /// The endpoint cannot be reached.
    #[error("its endpoint cannot be reached")]
    Unreachable,
    /// The endpoint took too long.
    #[error("its endpoint did not answer in time")]
    TimedOut,
    /// The endpoint said more than any answer needs.
    #[error("its endpoint's answer is too large")]
    TooLarge,
    /// Another HTTP status than 200, a redirect among them.
    #[error("its endpoint answered with HTTP status {0}")]
    Status(u16),
    /// The endpoint refused, with a code of the standard.
    #[error("its endpoint refused: {0}")]
    Refused(&'static str),
    /// The answer does not say that it is JSON.
    #[error("its endpoint's answer is no JSON")]
    NotJson,
    /// The answer cannot be read, or its token cannot stand in a header.
    #[error("its endpoint's answer cannot be used")]
    Malformed,
    /// The token is none that is shown by whoever bears it.
    #[error("the token that was issued is no bearer token")]
    TokenType,
    /// The answer does not say what was issued, or it is no access token.
    #[error("what was issued is no access token")]
    IssuedTokenType,
    /// The token is not for the server alone.
    #[error("the token that was issued is not for this server alone")]
    Audience,
    /// The token is good for more than was asked for.
    #[error("the token that was issued is good for more than was asked for")]
    Scope,
    /// The token has ended already.
    #[error("the token that was issued has ended already")]
    Expired,
    /// The token does not end, or not within a day.
    #[error("the token that was issued does not end within a day")]
    Lifetime,
    /// What was issued is what was shown.
    #[error("the token that was issued is the one that was to be exchanged")]
    Unchanged,
    /// Credentials were taken back while this one was asked for.
    #[error("credentials were taken back while it was asked for")]
    Voided,
}
