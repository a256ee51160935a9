//! The keys of what is done with what servers send, and of how dangerous things are.

use settings::Standing::Default;
use settings::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "output_validation.mode",
        "What a result leads to that does not fit its tool's output schema: `off`, `warn` (forwarded, recorded) or `strict` (withheld, recorded).",
        Default(
            "\"warn\"",
            "nothing that works today is withheld, and everything that is wrong is seen",
        ),
    ),
    key(
        "output_validation.max_bytes",
        "The size of `structuredContent`.",
        Default("5242880", "more than honest tools send, and little enough to read"),
    ),
    key(
        "output_validation.max_depth",
        "The nesting of `structuredContent`; a scalar counts 1.",
        Default("64", "deeper than honest data"),
    ),
    key(
        "output_validation.missing_structured_content",
        "A declared schema and no structured output, in strict mode: `allow` or `block`.",
        Default("\"allow\"", "many tools declare more than they return"),
    ),
    key(
        "output_validation.uncompilable_schema",
        "Structured output whose schema cannot be used, in strict mode: `allow` or `block`.",
        Default("\"allow\"", "a server's mistake does not stop its tools"),
    ),
    key(
        "output_sanitisation.spotlight_untrusted",
        "Whether untrusted text is fenced with the name of its source.",
        Default("false", "results are untouched unless somebody asks for it"),
    ),
    key(
        "output_sanitisation.response_action",
        "What a secret in a result leads to: `spotlight` (nothing), `redact` (it is masked) or `block` (a critical one withholds the result).",
        Default("\"spotlight\"", "results are untouched unless somebody asks for it"),
    ),
    key(
        "output_sanitisation.strip_control_chars",
        "Whether characters of `strip_classes` are taken out of untrusted text.",
        Default("false", "results are untouched unless somebody asks for it"),
    ),
    key(
        "output_sanitisation.strip_classes",
        "Which characters: `ansi`, `c0c1`, `bidi`, `zero_width`.",
        Default(
            "[\"ansi\", \"c0c1\", \"bidi\", \"zero_width\"]",
            "all of them can hide something",
        ),
    ),
    key(
        "output_sanitisation.max_redactions",
        "More masks than this in one result, and it is withheld.",
        Default("100", "a result with more secrets is not worth reading"),
    ),
    key(
        "detection.packs",
        "Files with rules beside those that come with the gateway; `*` is allowed.",
        Default("[]", "the rules that come with the gateway"),
    ),
    key(
        "detection.arguments",
        "What a secret in outgoing arguments leads to: `off`, `warn` (recorded) or `block` (the call is refused).",
        Default("\"off\"", "some tools are there to take secrets"),
    ),
    key(
        "risk.files",
        "Files with rules on risk beside those that come with the gateway; `*` is allowed.",
        Default("[]", "the rules that come with the gateway"),
    ),
    key(
        "response.limit_bytes",
        "A longer text is cut, and can be read on with `portreeve__read_cache`; 0: never.",
        Default(
            "0",
            "results are untouched unless somebody asks for it; a good value is 262144",
        ),
    ),
    key(
        "response.cache_ttl",
        "How long the rest of a cut text can be read.",
        Default("\"2h\"", "as long as a piece of work takes"),
    ),
];
