//! Finds the `x-mcp-header` marks of a tool's input schema. Refuses a schema with a mark that
//! could be read in two ways, or that no client could obey.

use http::HeaderName;

use super::PARAM_PREFIX;
use crate::envelope::text_of;
use crate::span::{Scanner, Span, SpanFault, decode_string};

/// The arguments of a tool that are mirrored in headers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Marks(Vec<Mark>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) header: HeaderName,
    pub(super) label: String,
    pub(super) path: Vec<String>,
}

/// Why a tool's marks cannot be obeyed; such a tool is left out of lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMark {
    /// The schema is not JSON within the limits.
    #[error("the input schema is not a JSON document within the limits")]
    NotASchema,
    /// A member that matters comes twice.
    #[error("the input schema names a member twice")]
    Ambiguous,
    /// A mark with no name.
    #[error("an `x-mcp-header` mark is empty")]
    Empty,
    /// A mark that is no string, or no HTTP token.
    #[error("an `x-mcp-header` mark is not an HTTP token")]
    NotAToken,
    /// Two marks of one name, in whatever case.
    #[error("two `x-mcp-header` marks have the same name")]
    Duplicate,
    /// A mark on something else than a string, integer or boolean.
    #[error("an `x-mcp-header` mark is on a property that is not a string, integer or boolean")]
    WrongType,
    /// A mark that is not reached by `properties` alone.
    #[error("an `x-mcp-header` mark is on something not reached by `properties` alone")]
    NotReachable,
    /// More marks than a request can carry headers.
    #[error("there are too many `x-mcp-header` marks")]
    TooMany,
}

/// The most marks of one tool: each costs a look through the arguments.
const MOST_MARKS: usize = 64;
const MAX_DEPTH: usize = 256;
const MARK: &str = "x-mcp-header";

impl Marks {
    /// Reads the marks of a raw `inputSchema`. A schema without any is only searched, not parsed.
    ///
    /// # Errors
    /// When one of the marks is not allowed.
    pub fn read(input_schema: &[u8]) -> Result<Self, BadMark> {
        // A letter of the mark can only be spelled otherwise as `\u00..`.
        let spelled = |text: &str| memchr::memmem::find(input_schema, text.as_bytes()).is_some();
        if !spelled(MARK) && !spelled("\\u00") {
            return Ok(Self::default());
        }
        std::str::from_utf8(input_schema).map_err(|_| BadMark::NotASchema)?;
        let mut reader = Reader {
            bytes: input_schema,
            scanner: Scanner::new(input_schema, MAX_DEPTH),
            path: Vec::new(),
            marks: Vec::new(),
        };
        reader.schema(SchemaReach::Properties, 0)?;
        reader.scanner.finish()?;
        Ok(Self(reader.marks))
    }

    /// Whether nothing is marked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the headers, as the tool spells them (`Mcp-Param-Region`).
    pub fn header_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|mark| mark.label.as_str())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Mark> {
        self.0.iter()
    }
}

impl From<SpanFault> for BadMark {
    fn from(fault: SpanFault) -> Self {
        match fault {
            SpanFault::Grammar | SpanFault::TooDeep | SpanFault::TooManyMembers => Self::NotASchema,
            SpanFault::DuplicateKey => Self::Ambiguous,
        }
    }
}

/// How a place in the schema is reached.
#[derive(Clone, Copy, PartialEq)]
enum SchemaReach {
    Properties,
    Otherwise,
}

struct Reader<'a> {
    bytes: &'a [u8],
    scanner: Scanner<'a>,
    path: Vec<String>,
    marks: Vec<Mark>,
}

impl Reader<'_> {
    /// Takes whatever stands where a schema may stand.
    fn schema(&mut self, reach: SchemaReach, level: usize) -> Result<(), BadMark> {
        match self.scanner.peek() {
            Some(b'{') => self.object_schema(reach, level),
            Some(b'[') => self.each(b'[', b']', level, |reader| {
                reader.schema(SchemaReach::Otherwise, level + 1)
            }),
            _ => self.scanner.value(level).map(drop).map_err(BadMark::from),
        }
    }

    fn object_schema(&mut self, reach: SchemaReach, level: usize) -> Result<(), BadMark> {
        let (mut mark, mut kind, mut properties) = (None, None, None);
        self.each(b'{', b'}', level, |reader| {
            match reader.key()?.as_str() {
                MARK => set_once(&mut mark, reader.scanner.value(level + 1)?),
                "type" => set_once(&mut kind, reader.scanner.value(level + 1)?),
                "properties" => {
                    set_once(&mut properties, 0..0)?;
                    reader.named_schemas(reach, level + 1)
                }
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                    reader.named_schemas(SchemaReach::Otherwise, level + 1)
                }
                // Data, not schemas: what looks like a mark in it is none.
                "default" | "const" | "enum" | "examples" => Ok(reader.scanner.value(level + 1).map(drop)?),
                _ => reader.schema(SchemaReach::Otherwise, level + 1),
            }
        })?;
        mark.map_or(Ok(()), |mark| self.add(reach, mark, kind))
    }

    /// Takes an object whose member names are not keywords but names of the tool's own.
    fn named_schemas(&mut self, reach: SchemaReach, level: usize) -> Result<(), BadMark> {
        if self.scanner.peek() != Some(b'{') {
            return self.schema(SchemaReach::Otherwise, level);
        }
        let mut names = Vec::new();
        self.each(b'{', b'}', level, |reader| {
            let name = reader.key()?;
            names.push(name.clone());
            reader.path.push(name);
            reader.schema(reach, level + 1)?;
            reader.path.pop();
            Ok(())
        })?;
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        if names.len() == count {
            Ok(())
        } else {
            Err(BadMark::Ambiguous)
        }
    }

    fn add(&mut self, reach: SchemaReach, mark: Span, kind: Option<Span>) -> Result<(), BadMark> {
        if reach == SchemaReach::Otherwise || self.path.is_empty() {
            return Err(BadMark::NotReachable);
        }
        let name = text_of(self.bytes.get(mark).unwrap_or_default()).ok_or(BadMark::NotAToken)?;
        if name.is_empty() {
            return Err(BadMark::Empty);
        }
        if !name.bytes().all(is_token_byte) {
            return Err(BadMark::NotAToken);
        }
        if !kind.is_some_and(|kind| is_mirrorable(self.bytes.get(kind).unwrap_or_default())) {
            return Err(BadMark::WrongType);
        }
        let header =
            HeaderName::from_bytes(format!("{PARAM_PREFIX}{name}").as_bytes()).map_err(|_| BadMark::NotAToken)?;
        if self.marks.iter().any(|known| known.header == header) {
            return Err(BadMark::Duplicate);
        }
        if self.marks.len() == MOST_MARKS {
            return Err(BadMark::TooMany);
        }
        self.marks.push(Mark {
            header,
            label: format!("Mcp-Param-{name}"),
            path: self.path.clone(),
        });
        Ok(())
    }

    /// Takes a container, handing each of its elements to `take`.
    fn each(
        &mut self,
        open: u8,
        close: u8,
        level: usize,
        mut take: impl FnMut(&mut Self) -> Result<(), BadMark>,
    ) -> Result<(), BadMark> {
        if level >= MAX_DEPTH {
            return Err(BadMark::NotASchema);
        }
        self.scanner.expect(open)?;
        if self.scanner.take(close) {
            return Ok(());
        }
        loop {
            take(self)?;
            if !self.scanner.take(b',') {
                return Ok(self.scanner.expect(close)?);
            }
        }
    }

    fn key(&mut self) -> Result<String, BadMark> {
        let span = self.scanner.key_span()?;
        let name = decode_string(self.bytes.get(span).unwrap_or_default()).ok_or(BadMark::NotASchema)?;
        Ok(name.into_owned())
    }
}

fn set_once(place: &mut Option<Span>, span: Span) -> Result<(), BadMark> {
    match place.replace(span) {
        None => Ok(()),
        Some(_) => Err(BadMark::Ambiguous),
    }
}

/// `tchar` of RFC 9110.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a raw `type` is one that a header can mirror; it may admit null besides.
fn is_mirrorable(kind: &[u8]) -> bool {
    let is_primitive = |name: &str| matches!(name, "string" | "integer" | "boolean");
    if let Some(name) = text_of(kind) {
        return is_primitive(&name);
    }
    let Ok(names) = serde_json::from_slice::<Vec<String>>(kind) else {
        return false;
    };
    let (nulls, others): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| *name == "null");
    nulls.len() <= 1 && matches!(others.as_slice(), [one] if is_primitive(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(schema: &str) -> Result<Vec<(String, String)>, BadMark> {
        Marks::read(schema.as_bytes()).map(|marks| {
            marks
                .iter()
                .map(|mark| (mark.label.clone(), mark.path.join("/")))
                .collect()
        })
    }

    fn one(mark: &str, kind: &str) -> Result<Vec<(String, String)>, BadMark> {
        read(&format!(
            r#"{{"type":"object","properties":{{"a":{{"type":{kind},"x-mcp-header":{mark}}}}}}}"#
        ))
    }

    #[test]
    fn marks_no_client_could_obey_are_refused() {
        for mark in [
            r#""a b""#,
            r#""a:b""#,
            r#""a\r\nX-Evil: 1""#,
            r#""\u0000""#,
            r#""é""#,
            r#""\ud800""#,
            "7",
            "null",
            "{}",
        ] {
            assert_eq!(one(mark, "\"string\""), Err(BadMark::NotAToken), "{mark}");
        }
        assert_eq!(one("\"\"", "\"string\""), Err(BadMark::Empty));
        for kind in [
            "\"number\"",
            "\"object\"",
            "\"array\"",
            "\"null\"",
            "null",
            "[]",
            r#"["string","integer"]"#,
            r#"["string","number"]"#,
            r#"["null"]"#,
        ] {
            assert_eq!(one("\"A\"", kind), Err(BadMark::WrongType), "{kind}");
        }
        assert_eq!(
            read(r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#),
            Err(BadMark::WrongType)
        );
        for kind in ["\"string\"", "\"integer\"", "\"boolean\"", r#"["string","null"]"#] {
            assert!(one("\"A\"", kind).is_ok(), "{kind}");
        }
    }

    #[test]
    fn marks_are_reached_by_properties_alone() {
        let mark = r#"{"type":"string","x-mcp-header":"A"}"#;
        for schema in [
            mark.to_owned(),
            format!(r#"{{"properties":{{"a":{{"type":"array","items":{mark}}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"items":{{"properties":{{"b":{mark}}}}}}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"prefixItems":[{mark}]}}}}}}"#),
            format!(r#"{{"properties":{{"a":[{mark}]}}}}"#),
            format!(r#"{{"properties":[{mark}]}}"#),
            format!(r#"{{"oneOf":[{{"properties":{{"a":{mark}}}}}]}}"#),
            format!(r#"{{"allOf":[{{"properties":{{"a":{mark}}}}}]}}"#),
            format!(r#"{{"not":{{"properties":{{"a":{mark}}}}}}}"#),
            format!(r#"{{"if":{{"properties":{{"a":{mark}}}}}}}"#),
            format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/a"}}}},"$defs":{{"a":{mark}}}}}"##),
            format!(r#"{{"additionalProperties":{mark}}}"#),
            format!(r#"{{"patternProperties":{{"^a":{mark}}}}}"#),
            format!(r#"{{"x-vendor":{{"deep":[{{"deeper":{mark}}}]}}}}"#),
        ] {
            assert_eq!(read(&schema), Err(BadMark::NotReachable), "{schema}");
        }
        let nested = format!(r#"{{"properties":{{"a":{{"type":"object","properties":{{"b/c":{mark}}}}}}}}}"#);
        assert_eq!(read(&nested), Ok(vec![("Mcp-Param-A".to_owned(), "a/b/c".to_owned())]));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (schema, fault) in [
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
                BadMark::Duplicate,
            ),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-h\u0065ader":"B"}}}"#,
                BadMark::Ambiguous,
            ),
            (
                r#"{"properties":{"a":{"type":"string","type":"number","x-mcp-header":"A"}}}"#,
                BadMark::Ambiguous,
            ),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"\u0061":{}}}"#,
                BadMark::Ambiguous,
            ),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}"#,
                BadMark::Ambiguous,
            ),
            (r#"{"x-mcp-header""#, BadMark::NotASchema),
            (r#"{"a":"x-mcp-header"} 1"#, BadMark::NotASchema),
        ] {
            assert_eq!(read(schema), Err(fault), "{schema}");
        }
        let not_text = b"{\"a\":\"\xff\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}";
        assert_eq!(Marks::read(not_text), Err(BadMark::NotASchema));
        let deep = format!(r#"{}"x-mcp-header"{}"#, "[".repeat(5000), "]".repeat(5000));
        assert_eq!(read(&deep), Err(BadMark::NotASchema));
        let many: Vec<String> = (0..=MOST_MARKS)
            .map(|n| format!(r#""p{n}":{{"type":"string","x-mcp-header":"H{n}"}}"#))
            .collect();
        assert_eq!(
            read(&format!(r#"{{"properties":{{{}}}}}"#, many.join(","))),
            Err(BadMark::TooMany)
        );
    }

    #[test]
    fn a_mark_is_found_in_any_spelling_and_only_where_it_is_a_keyword() {
        let spelled = r#"{"properties":{"a":{"type":"string","\u0078-mcp-header":"A"}}}"#;
        assert_eq!(read(spelled), Ok(vec![("Mcp-Param-A".to_owned(), "a".to_owned())]));
        for schema in [
            "not even JSON",
            "{}",
            r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
            r#"{"properties":{"a":{"items":{"properties":{"x-mcp-header":{}}}}}}"#,
            r#"{"required":["x-mcp-header"],"description":"x-mcp-header"}"#,
            r#"{"properties":{"a":{"default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":7}]}}}"#,
            r#""x-mcp-header""#,
        ] {
            assert_eq!(read(schema), Ok(vec![]), "{schema}");
        }
    }
}
