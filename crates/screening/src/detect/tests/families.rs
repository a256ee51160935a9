//! Recall over families of secrets and the contexts they are found in. `tests/corpus/families.toml` names the families, the
//! contexts are here; `tests/corpus/blind.rot13` was written by somebody who had not seen the rules. `make corpus` prints
//! the figures; their floors hold in every test run.

use super::*;

/// A text with a secret in it, or without one.
struct Case {
    family: String,
    group: String,
    context: String,
    text: String,
    secret: Option<String>,
}

#[derive(serde::Deserialize)]
struct Families {
    family: Vec<Family>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    id: String,
    group: String,
    name: String,
    secret: String,
    #[serde(default = "itself")]
    form: String,
}

fn itself() -> String {
    "$".to_owned()
}

/// Where secrets stand. `@NAME` is what a setting is called, `@name` the same in lower case, `@words` the same in words,
/// `@VALUE` the secret, `@JSON` the secret as JSON spells it and `@URL` as a URL does.
const CONTEXTS: [(&str, &str); 16] = [
    ("alone", "@VALUE"),
    ("env", "# production\nREGION=eu-west-1\n@NAME=@VALUE\nDEBUG=false\n"),
    ("shell", "export @NAME=\"@VALUE\" && ./deploy.sh\n"),
    ("json", r#"{"region": "eu-west-1", "@name": "@JSON", "debug": false}"#),
    (
        "yaml",
        "service:\n  region: eu-west-1\n  @name: \"@JSON\"\n  debug: false\n",
    ),
    (
        "kubernetes",
        "    env:\n    - name: REGION\n      value: eu-west-1\n    - name: @NAME\n      value: \"@JSON\"\n    ports: []\n",
    ),
    (
        "kubernetes, JSON",
        r#"{"env":[{"name":"REGION","value":"eu-west-1"},{"name":"@NAME","value":"@JSON"}]}"#,
    ),
    (
        "ECS",
        "\"environment\": [\n  {\n    \"name\": \"@NAME\",\n    \"value\": \"@JSON\"\n  }\n]",
    ),
    (
        "Terraform pairs",
        "environment = [\n  { name = \"REGION\", value = \"eu-west-1\" },\n  { name = \"@NAME\", value = \"@JSON\" },\n]\n",
    ),
    (
        "Terraform",
        "resource \"app\" \"main\" {\n  @name = \"@JSON\"\n  region  = \"eu-west-1\"\n}\n",
    ),
    (
        "prose",
        "Please rotate it: the @words is @VALUE and the old one stops working on Friday.",
    ),
    ("Python", "import os\n\nos.environ[\"@NAME\"] = \"@JSON\"\n"),
    ("JavaScript", "const config = {\n  @name: '@JSON',\n  retries: 3,\n};\n"),
    ("properties", "service.region=eu-west-1\nservice.@name=@VALUE\n"),
    (
        "Docker",
        "docker run --rm -e @NAME='@VALUE' -p 8080:80 example/app:1.2\n",
    ),
    (
        "URL",
        "GET https://api.example.com/v1/items?limit=5&@name=@URL&page=2 200 in 13 ms",
    ),
];

/// A case for each family and context; the same on every machine.
fn drawn() -> Vec<Case> {
    let families: Families = toml::from_str(include_str!("../../../tests/corpus/families.toml")).unwrap();
    let mut cases = Vec::new();
    for (number, family) in families.family.iter().enumerate() {
        let template = family
            .secret
            .replace("~~", "\u{1}")
            .replace('~', "")
            .replace('\u{1}', "~");
        for (place, (context, around)) in CONTEXTS.iter().enumerate() {
            let draw = &mut Draw::new(u64::try_from(number * CONTEXTS.len() + place).unwrap());
            let secret = fill(&template, draw);
            let value = fill(&family.form, draw).replace('$', &secret);
            let name = family.name.to_ascii_lowercase();
            let text = around
                .replace("@NAME", &family.name)
                .replace("@name", &name)
                .replace("@words", &name.replace('_', " "))
                .replace("@VALUE", &value)
                .replace("@JSON", &raw(&value))
                .replace("@URL", &escaped(&value));
            cases.push(Case {
                family: family.id.clone(),
                group: family.group.clone(),
                context: (*context).to_owned(),
                text,
                secret: Some(secret),
            });
        }
    }
    cases
}

/// A value as it stands in the query of a URL.
fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let spell = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    value.bytes().map(spell).collect()
}

/// Lines of `{"family","context","text","secret"}`, their letters turned by thirteen; clean ones have no secret.
fn blind() -> Vec<Case> {
    let turned = |letter: char| match letter {
        'A'..='M' | 'a'..='m' => char::from_u32(u32::from(letter) + 13).unwrap(),
        'N'..='Z' | 'n'..='z' => char::from_u32(u32::from(letter) - 13).unwrap(),
        _ => letter,
    };
    let text: String = include_str!("../../../tests/corpus/blind.rot13")
        .chars()
        .map(turned)
        .collect();
    let case = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        Case {
            family: word("family"),
            group: "blind".to_owned(),
            context: word("context"),
            text: word("text"),
            secret: line["secret"].as_str().map(str::to_owned),
        }
    };
    text.lines().filter(|line| line.starts_with('{')).map(case).collect()
}

/// What became of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Missed,
    Told,
    Masked,
}

/// Whether findings cover the secret: all of it where it can be placed in the text, in any of its spellings.
fn fate(case: &Case, secret: &str) -> Fate {
    let text = raw(&case.text);
    let found = DETECTOR.find(&[text_piece(&text)], &NOBODY);
    let spellings = [raw(secret), raw(&raw(secret)), raw(&escaped(secret))];
    let place = spellings.iter().find_map(|spelled| {
        let spelled = spelled.trim_end_matches("\\n");
        Some((text.find(spelled)?, spelled.len()))
    });
    let covers = |finding: &&Finding| {
        place.is_none_or(|(start, length)| {
            let within = |(_, range): &(usize, Range<usize>)| range.start <= start && range.end >= start + length;
            finding.parts.iter().any(within)
        })
    };
    let fate = |finding: &Finding| match finding.redact {
        Redact::Mask => Fate::Masked,
        Redact::DetectOnly => Fate::Told,
    };
    found.iter().filter(covers).map(fate).max().unwrap_or(Fate::Missed)
}

/// How many there are, how many were masked, and how many were masked or told.
#[derive(Clone, Copy, Default)]
struct Tally {
    cases: u32,
    masked: u32,
    found: u32,
}

impl Tally {
    fn add(&mut self, fate: Fate) {
        self.cases += 1;
        self.masked += u32::from(fate == Fate::Masked);
        self.found += u32::from(fate != Fate::Missed);
    }

    fn recall(self) -> f64 {
        f64::from(self.found) / f64::from(self.cases)
    }

    fn masked(self) -> f64 {
        f64::from(self.masked) / f64::from(self.cases)
    }
}

/// By group; families and contexts where something was missed are printed.
fn measure(cases: &[Case]) -> BTreeMap<String, Tally> {
    let mut groups = BTreeMap::<String, Tally>::new();
    let mut parts = BTreeMap::<String, Tally>::new();
    let mut missed = BTreeMap::<&str, Vec<&str>>::new();
    for case in cases {
        let Some(secret) = &case.secret else { continue };
        let fate = fate(case, secret);
        groups.entry(case.group.clone()).or_default().add(fate);
        parts.entry(format!("context {}", case.context)).or_default().add(fate);
        if fate == Fate::Missed || (case.group == "named" && fate == Fate::Told) {
            missed.entry(&case.family).or_default().push(&case.context);
        }
    }
    for (name, tally) in groups.iter().chain(&parts) {
        let Tally { cases, masked, found } = tally;
        println!(
            "{name:40} {cases:5} cases, masked {masked:5} ({:.4}), found {found:5} ({:.4})",
            tally.masked(),
            tally.recall()
        );
    }
    println!("missed: {missed:#?}");
    groups
}

#[test]
fn families_of_public_rule_sets_are_found_in_every_context() {
    let groups = measure(&drawn());
    let (named, public) = (groups["named"], groups["public"]);
    assert!(
        named.cases >= 700 && public.cases >= 2_000,
        "{} {}",
        named.cases,
        public.cases
    );
    assert!(named.masked() >= 0.97, "named: {:.4} are masked", named.masked());
    assert!(public.recall() >= 0.90, "public: {:.4} are found", public.recall());
}

#[test]
fn a_corpus_of_somebody_who_did_not_see_the_rules_is_found() {
    let cases = blind();
    let tally = measure(&cases)["blind"];
    let clean: Vec<_> = cases.iter().filter(|case| case.secret.is_none()).collect();
    let mut wrong = Vec::new();
    for case in &clean {
        let found = find(&case.text);
        if let Some(finding) = found.iter().find(|finding| finding.redact == Redact::Mask) {
            wrong.push((finding.rule.to_string(), case.family.clone(), case.context.clone()));
        }
    }
    println!("clean {}, masked {}: {wrong:#?}", clean.len(), wrong.len());
    assert!(tally.recall() >= 0.90, "{:.4} are found", tally.recall());
    assert!(
        wrong.len() * 100 <= clean.len(),
        "{} of {} are masked",
        wrong.len(),
        clean.len()
    );
}
