//! Why something was decided: a closed list of codes with stable spellings, each with a sentence
//! for people and one on what the caller can do next. `reason-codes.txt` is the golden list.

/// What a code means and what its receiver can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// What happened, in a sentence without a full stop.
    pub meaning: &'static str,
    /// What the caller can do.
    pub next: &'static str,
}

macro_rules! reason_codes {
    ($($variant:ident $text:literal $meaning:literal $next:literal;)*) => {
        crate::words! {
            /// A reason in a receipt or a refusal; the order is that of the golden list.
            #[derive(PartialOrd, Ord)]
            pub enum ReasonCode {
                $(#[doc = $meaning] $variant = $text,)*
            }
        }

        impl ReasonCode {
            /// What it means and what the caller can do.
            #[must_use]
            pub fn remedy(self) -> Remedy {
                match self { $(Self::$variant => Remedy { meaning: $meaning, next: $next },)* }
            }
        }
    };
}

reason_codes! {
    AllowPolicyMatch "ALLOW_POLICY_MATCH" "a policy permits the call" "nothing to do";
    AllowApproved "ALLOW_APPROVED" "a person approved exactly this call" "nothing to do";
    AllowBuiltin "ALLOW_BUILTIN" "the gateway answers this by itself" "nothing to do";
    DenyNoAuthn "DENY_NO_AUTHN" "no credential was sent" "send a token in the Authorization header";
    DenyInvalidToken "DENY_INVALID_TOKEN" "the credential does not verify, has expired or is not for this gateway" "get a new token for this gateway's audience";
    DenyTokenRevoked "DENY_TOKEN_REVOKED" "the token was revoked" "ask the operator for a new token";
    DenyOrigin "DENY_ORIGIN" "the Host or Origin header is not one this gateway serves" "use the gateway's own address, or let the operator add the host or origin";
    DenyMalformed "DENY_MALFORMED" "the request is not one this protocol knows" "send one well-formed JSON-RPC request of a supported version";
    DenyPayloadTooLarge "DENY_PAYLOAD_TOO_LARGE" "the body or a part of it is over a limit" "send less";
    DenyDuplicateKey "DENY_DUPLICATE_KEY" "a JSON object names a member twice" "name every member once";
    DenySchemaViolation "DENY_SCHEMA_VIOLATION" "the arguments do not fit the tool's input schema" "correct the named field and call again";
    DenyUnknownFields "DENY_UNKNOWN_FIELDS" "the arguments hold a field the tool does not declare" "leave the field out";
    DenyPathTraversal "DENY_PATH_TRAVERSAL" "a path leaves the workspace" "use a path inside the workspace";
    DenyHostNotAllowed "DENY_HOST_NOT_ALLOWED" "a URL names a host that is not on the allowlist" "use an allowed host";
    DenySecretInArguments "DENY_SECRET_IN_ARGUMENTS" "the arguments hold what looks like a secret" "leave the secret out";
    DenyToolNotFound "DENY_TOOL_NOT_FOUND" "no such tool is available to this caller" "list the tools and use one of those";
    DenyToolQuarantined "DENY_TOOL_QUARANTINED" "the tool waits for the operator's approval of its definition" "let the operator review it with `portreeve tool approve`";
    DenyToolDisabled "DENY_TOOL_DISABLED" "the operator has disabled the tool" "let the operator enable it with `portreeve tool enable`";
    DenySandboxUnavailable "DENY_SANDBOX_UNAVAILABLE" "the sandbox the server needs cannot be built here" "let the operator run `portreeve doctor`";
    DenyNoPermission "DENY_NO_PERMISSION" "a policy forbids the call, or the token is not for this server" "ask for other arguments or other rights";
    DenyNoMatchingRule "DENY_NO_MATCHING_RULE" "no policy permits the call" "ask the operator for a policy that does";
    DenyPolicyError "DENY_POLICY_ERROR" "a policy could not be evaluated" "let the operator look at it with `portreeve policy explain`";
    DenyRateLimit "DENY_RATE_LIMIT" "too many calls in a short time" "wait for retry_after_ms and call again";
    DenyQuota "DENY_QUOTA" "the quota for this period is used up" "wait for the next period";
    DenyConcurrency "DENY_CONCURRENCY" "too many calls are running at once" "wait until one has ended";
    RequireApproval "REQUIRE_APPROVAL" "a person must approve this call" "wait for the approval, then call again with the same arguments";
    DenyApprovalRefused "DENY_APPROVAL_REFUSED" "a person refused this call" "do not call again with these arguments";
    DenyApprovalExpired "DENY_APPROVAL_EXPIRED" "the approval was not used in time" "call again to ask anew";
    AmendmentViiNoPlan "amendment_vii_no_plan" "a high-risk call has no approved plan" "wait for the approval";
    AmendmentViiNoGuardianVerdict "amendment_vii_no_guardian_verdict" "the plan has no verdict yet" "wait for the approval";
    AmendmentViiScopeMismatch "amendment_vii_scope_mismatch" "the call differs from the approved plan" "call with the approved arguments, or ask anew";
    DenyPassthroughBlocked "DENY_PASSTHROUGH_BLOCKED" "the caller's own credential would have reached the server" "leave the credential out of the arguments";
    DenyCredentialUnavailable "DENY_CREDENTIAL_UNAVAILABLE" "the server's credential cannot be had" "let the operator check the server's `credential`";
    DenyOauthRedirectInvalid "DENY_OAUTH_REDIRECT_INVALID" "the redirect URI is not the registered one" "use the registered redirect URI";
    DenyOauthClientUnapproved "DENY_OAUTH_CLIENT_UNAPPROVED" "this client has no consent for this server" "give consent on the connect page";
    DenyOauthMetadataInvalid "DENY_OAUTH_METADATA_INVALID" "the server's OAuth metadata is not acceptable" "let the operator check the server's issuer";
    TokenExchanged "TOKEN_EXCHANGED" "a token was exchanged for this server" "nothing to do";
    TokenFromVault "TOKEN_FROM_VAULT" "a kept secret was used for this server" "nothing to do";
    TokenNone "TOKEN_NONE" "the server takes no credential" "nothing to do";
    TokenPassthroughBlocked "TOKEN_PASSTHROUGH_BLOCKED" "a passthrough of the caller's token was stopped" "leave the credential out of the arguments";
    DenyKillSwitch "DENY_KILL_SWITCH" "incident mode denies this call" "wait until the operator ends the incident";
    DenyStateStale "DENY_STATE_STALE" "this gateway has lost touch with its fleet" "try again, or use another gateway";
    IncidentKillSwitchActive "INCIDENT_KILL_SWITCH_ACTIVE" "incident mode is active" "wait until the operator ends the incident";
    IncidentSessionQuarantined "INCIDENT_SESSION_QUARANTINED" "the session was quarantined after unusual behaviour" "ask the operator to release it";
    IncidentTokensRevoked "INCIDENT_TOKENS_REVOKED" "tokens were revoked by incident mode" "get a new token after the incident";
    WithheldSchema "WITHHELD_SCHEMA" "the result does not fit what the tool declared, or is over a limit" "tell the server's owner";
    WithheldSanitisation "WITHHELD_SANITISATION" "the result holds what must not be passed on" "tell the server's owner";
    ErrorUpstream "ERROR_UPSTREAM" "the server failed or spoke nonsense" "try again later; the operator sees the cause";
    ErrorTimeout "ERROR_TIMEOUT" "the server did not answer in time" "try again later; the call may have run";
    ErrorCancelled "ERROR_CANCELLED" "the caller cancelled" "nothing to do";
    ErrorInterrupted "ERROR_INTERRUPTED" "the gateway stopped while the call ran; its outcome is unknown" "check the effect before calling again";
    DenyReceiptUnavailable "DENY_RECEIPT_UNAVAILABLE" "the ledger cannot write, so nothing is released" "try again later; the operator must make room";
}

#[cfg(test)]
mod tests {
    use super::*;

    // R178
    #[test]
    fn the_list_of_codes_is_the_golden_one() {
        let golden: Vec<&str> = include_str!("reason-codes.txt").lines().collect();
        let ours: Vec<&str> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(
            ours, golden,
            "a code is added to the golden list and to docs/reason-codes.md too"
        );
    }

    #[test]
    fn the_page_for_people_has_every_code_with_its_meaning() {
        // The page breaks long lines wherever it likes.
        let words: Vec<&str> = include_str!("../../../docs/reason-codes.md")
            .split_whitespace()
            .collect();
        let page = words.join(" ");
        for code in ReasonCode::ALL {
            let (meaning, next) = (code.remedy().meaning, code.remedy().next);
            let entry = format!("- `{code}`: {meaning}. What to do: {next}.");
            assert!(page.contains(&entry), "docs/reason-codes.md lacks: {entry}");
        }
    }

    #[test]
    fn every_code_reads_back() {
        assert!(
            ReasonCode::ALL
                .iter()
                .all(|code| ReasonCode::parse(code.as_str()) == Some(*code))
        );
        assert_eq!(ReasonCode::parse("deny_origin"), None);
    }
}
