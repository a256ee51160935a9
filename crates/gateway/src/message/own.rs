//! Messages of the gateway's own, put together from values that each have a type: our words, a client's id, a definition
//! that an operator approved, something that crossed the chokepoint. There is no way in for bytes from elsewhere.

use std::borrow::Cow;

use bytes::Bytes;
use mcp::mrtr::{self, InputMethod};
use mcp::{RequestId, compose};
use screening::result::ScreenedResult;

use crate::message::adapted::Adapted;
use crate::snapshot::tool::ListedDefinition;

/// A value in a message of ours.
#[derive(Debug)]
pub(crate) enum OwnValue<'a> {
    /// JSON that stands in our source.
    Fixed(&'static str),
    /// A text, whatever it holds: it is written as a string.
    Text(Cow<'a, str>),
    /// A number.
    Number(u64),
    /// An object.
    Object(Vec<(&'static str, OwnValue<'a>)>),
    /// An array.
    Array(Vec<OwnValue<'a>>),
    /// An array of values that somebody else keeps.
    Part(&'a [OwnValue<'a>]),
    /// The id of a client's own request.
    Id(&'a RequestId),
    /// A definition as it was approved.
    Definition(&'a ListedDefinition),
    /// Something that crossed the chokepoint.
    Screened(&'a ScreenedResult),
    /// The same, with members of ours.
    Adapted(&'a Adapted),
}

impl OwnValue<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(json) => out.extend_from_slice(json.as_bytes()),
            Self::Text(text) => compose::string(text, out),
            Self::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Self::Object(members) => write_object(members, out),
            Self::Array(values) => write_array(values, out),
            Self::Part(values) => write_array(values, out),
            Self::Id(id) => out.extend_from_slice(id.as_raw()),
            Self::Definition(listed) => out.extend_from_slice(&listed.definition),
            Self::Screened(screened) => out.extend_from_slice(screened.bytes()),
            Self::Adapted(adapted) => out.extend_from_slice(adapted.bytes()),
        }
    }
}

fn write_array(values: &[OwnValue<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        value.write(out);
    }
    out.push(b']');
}

fn write_object(members: &[(&'static str, OwnValue<'_>)], out: &mut Vec<u8>) {
    out.push(b'{');
    for (place, (name, value)) in members.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        compose::string(name, out);
        out.push(b':');
        value.write(out);
    }
    out.push(b'}');
}

/// A result of the gateway's own. It cannot be made from bytes:
///
/// ```compile_fail,E0423
/// fn forge(bytes: bytes::Bytes) -> portreeve_gateway::OwnResult {
///     portreeve_gateway::OwnResult(bytes)
/// }
/// ```
///
/// ```
/// fn pass_on(result: portreeve_gateway::OwnResult) -> portreeve_gateway::OwnResult {
///     result
/// }
/// ```
pub struct OwnResult(Bytes);

impl OwnResult {
    /// `{}`.
    pub(crate) fn empty() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// An object of these members.
    pub(crate) fn object(members: &[(&'static str, OwnValue<'_>)]) -> Self {
        let mut out = Vec::new();
        write_object(members, &mut out);
        Self(out.into())
    }

    /// What a server wants of the client, under keys of ours, and the sealed state the client brings back.
    pub(crate) fn input_required(requests: &[(String, InputMethod, Option<Adapted>)], sealed_state: &str) -> Self {
        let requests: Vec<(String, &str, Option<&[u8]>)> = requests
            .iter()
            .map(|(key, method, params)| {
                (
                    key.clone(),
                    method.as_str(),
                    params.as_ref().map(|params| params.bytes().as_ref()),
                )
            })
            .collect();
        Self(mrtr::compose_input_required(&requests, sealed_state))
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_holds_cannot_leave_its_string() {
        let text = OwnValue::Text("\",\"isError\":false,\"x\":\"\u{1b}".into());
        let result = OwnResult::object(&[
            ("a", text),
            ("b", OwnValue::Array(vec![OwnValue::Number(1), OwnValue::Fixed("{}")])),
        ]);
        let json: serde_json::Value = serde_json::from_slice(result.bytes()).expect("json");
        assert_eq!(
            json,
            serde_json::json!({"a": "\",\"isError\":false,\"x\":\"\u{1b}", "b": [1, {}]})
        );
    }
}
