//! Schemas with values that conform to them and values that do not, by construction.

use serde_json::{Value as Json, json};

/// Numbers that follow from a seed (splitmix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// `value` in some spelling: spaces, escapes, exponents.
    pub(super) fn spelled(&mut self, value: &Json) -> String {
        let space = [" ", "", "\n", "\t ", ""][usize::try_from(self.below(5)).unwrap()];
        let inner = match value {
            Json::Number(number) if number.is_i64() && self.below(3) == 0 => format!("{number}.0"),
            Json::Number(number) if number.is_i64() && *value != 0 && self.below(3) == 0 => format!("{number}0e-1"),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
            Json::String(text) => self.literal(text),
            Json::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(|element| self.spelled(element)).collect();
                format!("[{}]", elements.join(","))
            }
            Json::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, member)| format!("{}:{}", self.literal(name), self.spelled(member)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        };
        format!("{space}{inner}{space}")
    }

    fn literal(&mut self, text: &str) -> String {
        let escaped: String = text
            .chars()
            .map(|character| match u32::from(character) {
                code @ 0x23..0x5b if self.below(4) == 0 => format!("\\u{code:04x}"),
                _ => character.to_string(),
            })
            .collect();
        format!("\"{escaped}\"")
    }
}

pub(super) enum Shape {
    Integer { least: i64, most: i64 },
    Text { most: usize },
    Code,
    Choice(Vec<String>),
    Flag,
    List { of: Box<Shape>, most: usize },
    Set { most: i64 },
    Record { fields: Vec<Field>, closed: bool },
    Optional(Box<Shape>),
    Either(Box<Shape>),
}

pub(super) struct Field {
    name: String,
    shape: Shape,
    required: bool,
}

impl Shape {
    pub(super) fn any(random: &mut Random, depth: u64) -> Self {
        let kinds = if depth == 0 { 6 } else { 10 };
        let inner = |random: &mut Random| Box::new(Self::any(random, depth - 1));
        // Around what may be `null`, "or `null`" means another thing.
        let firm = |random: &mut Random| match *inner(random) {
            Self::Optional(of) | Self::Either(of) => of,
            shape @ (Self::Integer { .. }
            | Self::Text { .. }
            | Self::Code
            | Self::Choice(_)
            | Self::Flag
            | Self::List { .. }
            | Self::Set { .. }
            | Self::Record { .. }) => Box::new(shape),
        };
        match random.below(kinds) {
            0 => Self::Integer {
                least: -i64::try_from(random.below(50)).unwrap(),
                most: i64::try_from(random.below(50)).unwrap(),
            },
            1 => Self::Text {
                most: usize::try_from(random.below(20)).unwrap(),
            },
            2 => Self::Code,
            3 => Self::Choice((0..=random.below(12)).map(|number| format!("c{number}")).collect()),
            4 => Self::Flag,
            5 => Self::Set { most: 5 },
            6 => Self::List {
                of: inner(random),
                most: usize::try_from(random.below(5)).unwrap() + 1,
            },
            7 => Self::Optional(firm(random)),
            8 => Self::Either(firm(random)),
            _ => {
                let fields = (0..=random.below(6))
                    .map(|number| Field {
                        name: format!("F{number}"),
                        shape: Self::any(random, depth - 1),
                        required: random.below(2) == 0,
                    })
                    .collect();
                Self::Record {
                    fields,
                    closed: random.below(2) == 0,
                }
            }
        }
    }

    pub(super) fn schema(&self) -> Json {
        match self {
            Self::Integer { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Text { most } => json!({"type": "string", "maxLength": most}),
            Self::Code => json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}),
            Self::Choice(names) => json!({ "enum": names }),
            Self::Flag => json!({"type": "boolean"}),
            Self::List { of, most } => json!({"type": "array", "items": of.schema(), "maxItems": most}),
            Self::Set { .. } => json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
            Self::Optional(of) => json!({"anyOf": [of.schema(), {"type": "null"}]}),
            Self::Either(of) => json!({"oneOf": [{"type": "null"}, {"allOf": [of.schema()]}], "description": "either"}),
            Self::Record { fields, closed } => {
                let properties: serde_json::Map<_, _> = fields
                    .iter()
                    .map(|field| (field.name.clone(), field.shape.schema()))
                    .collect();
                let required: Vec<&str> = fields
                    .iter()
                    .filter(|field| field.required)
                    .map(|field| field.name.as_str())
                    .collect();
                let mut schema = json!({"type": "object", "properties": properties, "required": required});
                if *closed {
                    schema["additionalProperties"] = json!(false);
                }
                schema
            }
        }
    }

    pub(super) fn good(&self, random: &mut Random) -> Json {
        match self {
            Self::Integer { least, most } => {
                let width = u64::try_from(most - least).unwrap() + 1;
                json!(least + i64::try_from(random.below(width)).unwrap())
            }
            Self::Text { most } => json!("é".repeat(usize::try_from(random.below(*most as u64 + 1)).unwrap())),
            Self::Code => json!(format!("AB-{}", random.below(1000))),
            Self::Choice(names) => json!(names[usize::try_from(random.below(names.len() as u64)).unwrap()]),
            Self::Flag => json!(random.below(2) == 0),
            Self::List { of, most } => (0..random.below(*most as u64 + 1)).map(|_| of.good(random)).collect(),
            Self::Set { most } => (0..*most).map(|number| json!(number * 3)).collect(),
            Self::Optional(_) | Self::Either(_) if random.below(3) == 0 => json!(null),
            Self::Optional(of) | Self::Either(of) => of.good(random),
            Self::Record { fields, closed } => {
                let mut members = serde_json::Map::new();
                for field in fields.iter().filter(|field| field.required || field.name.len() > 1) {
                    members.insert(field.name.clone(), field.shape.good(random));
                }
                if !closed && random.below(2) == 0 {
                    members.insert("More".to_owned(), json!({"deep": [1, null, {"x": "y"}]}));
                }
                Json::Object(members)
            }
        }
    }

    /// A value that this shape refuses. Never `null`, which what stands around it may allow.
    pub(super) fn bad(&self, random: &mut Random) -> Json {
        if random.below(4) == 0 {
            return self.other_type();
        }
        match self {
            Self::Integer { least, most } => match random.below(3) {
                0 => json!(least - 1),
                1 => json!(most + 1),
                _ => json!(*least as f64 + 0.5),
            },
            Self::Text { most } => json!("é".repeat(most + 1)),
            Self::Code => json!(["", "ab-1", "AB-", "AB-1x", "XAB-1"][usize::try_from(random.below(5)).unwrap()]),
            Self::Choice(_) => json!("c99"),
            Self::Flag => json!("true"),
            Self::List { of, most } if random.below(2) == 0 => (0..=*most).map(|_| of.good(random)).collect(),
            Self::List { of, .. } => json!([of.bad(random)]),
            Self::Set { .. } => json!([1, 2, 1]),
            Self::Optional(of) | Self::Either(of) => of.bad(random),
            Self::Record { fields, closed } => {
                let mut members: serde_json::Map<_, _> = fields
                    .iter()
                    .map(|field| (field.name.clone(), field.shape.good(random)))
                    .collect();
                let required: Vec<&Field> = fields.iter().filter(|field| field.required).collect();
                match random.below(3) {
                    0 if *closed => {
                        members.insert("More".to_owned(), json!(1));
                    }
                    1 if !required.is_empty() => {
                        let which = usize::try_from(random.below(required.len() as u64)).unwrap();
                        members.remove(&required[which].name);
                    }
                    _ => {
                        let which = usize::try_from(random.below(fields.len() as u64)).unwrap();
                        members.insert(fields[which].name.clone(), fields[which].shape.bad(random));
                    }
                }
                Json::Object(members)
            }
        }
    }

    fn other_type(&self) -> Json {
        match self {
            Self::Flag => json!(1.5),
            Self::Optional(of) | Self::Either(of) => of.other_type(),
            Self::Integer { .. }
            | Self::Text { .. }
            | Self::Code
            | Self::Choice(_)
            | Self::List { .. }
            | Self::Set { .. }
            | Self::Record { .. } => json!(true),
        }
    }
}
