use super::*;
use crate::tests::{rules, town};

fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<PolicyFile> = files
        .iter()
        .map(|(name, text)| PolicyFile {
            name: (*name).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    let faults = Rules::load(&files).expect_err("faults");
    faults.iter().map(ToString::to_string).collect()
}

fn warnings(text: &str) -> Vec<String> {
    rules(text)
        .check_types(&town())
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn ids_come_from_the_annotation_or_from_file_and_position() {
    let rules = rules(
        "permit(principal,action,resource);\n@id(\"b\") forbid(principal,action,resource);\n@id(\"a\")\npermit(principal,action,resource);permit(principal,action,resource);",
    );
    let ids: Vec<&str> = rules.ids().map(|id| &**id).collect();
    assert_eq!(ids, ["a", "b", "rules.cedar:1", "rules.cedar:4"]);
}

// R103, R119
#[test]
fn every_fault_of_every_file_is_told_with_its_place() {
    let permit = "permit(principal,action,resource);";
    assert_eq!(
        faults(&[
            (
                "a.cedar",
                &format!("@id(\"x\"){permit} @id(\"builtin:y\"){permit} @id(\"\"){permit} @require(\"luck\"){permit}")
            ),
            (
                "b.cedar",
                &format!("@id(\"x\"){permit} @require(\"approval\") forbid(principal,action,resource);")
            ),
            ("c.cedar", "permit(principal == ?principal, action, resource);"),
        ]),
        [
            "a.cedar, policy 2: the id `builtin:y` is empty, begins with `builtin:` or holds control characters",
            "a.cedar, policy 3: the id `` is empty, begins with `builtin:` or holds control characters",
            "a.cedar, policy 4: `@require(\"luck\")` is unknown; `@require(\"approval\")` is what there is",
            "b.cedar, policy 1: the id `x` is used by more than one policy",
            "b.cedar, policy 2: `@require` is for permits; a forbid needs no approval",
            "c.cedar: policy templates are not supported",
        ]
    );
    let syntax = faults(&[(
        "d.cedar",
        "permit(principal,action,resource);\n  permit(principal action, resource);",
    )]);
    assert!(
        syntax[0].starts_with("d.cedar:2:20: unexpected token `action`"),
        "{syntax:?}"
    );
}

#[test]
fn what_a_policy_says_is_told_on_one_line() {
    let permit = "permit(principal,action,resource);";
    let told = faults(&[(
        "a.cedar",
        &format!("@id(\"a\\u{{1b}}[31m\\nb.cedar: fine\"){permit} @require(\"\\u{{7}}\"){permit}"),
    )]);
    assert_eq!(
        told,
        [
            r"a.cedar, policy 1: the id `a\u{1b}[31m\nb.cedar: fine` is empty, begins with `builtin:` or holds control characters",
            r#"a.cedar, policy 2: `@require("\u{7}")` is unknown; `@require("approval")` is what there is"#,
        ]
    );
    let endless = format!("permit(principal \u{1b}[2J{}", "x".repeat(5000));
    let syntax = faults(&[("b.cedar", &endless), ("c.cedar", "permit(principal \"\u{1b}\n\" ,")]);
    for fault in syntax {
        assert!(!fault.contains(char::is_control) && fault.len() < 2000, "{fault:?}");
    }
}

#[test]
fn a_policy_that_would_use_up_the_stack_is_a_fault() {
    let of = |condition: &str| format!("permit(principal, action, resource) when {{ {condition} }};");
    let chain = |count: usize, operator: &str| vec!["context.args.n == 1"; count].join(operator);
    let path = |count: usize| format!("context{} == 1", ".a".repeat(count));
    let nested = |count: usize, open: &str, close: &str| format!("{}true{}", open.repeat(count), close.repeat(count));
    for overgrown in [
        nested(500, "(", ")"),
        nested(500, "[", "]"),
        chain(2000, " && "),
        chain(2000, "||"),
        path(1000),
        format!("context{} == 1", "[\"a\"]".repeat(1000)),
        format!("{}false", "if context.args.a == 1 then true else ".repeat(1000)),
        format!("context.args.n > {}", vec!["1"; 1000].join("+")),
    ] {
        let told = faults(&[("a.cedar", &format!("\n{}", of(&overgrown)))]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("a.cedar:2:") && told[0].contains("nested too deeply"),
            "{told:?}"
        );
    }
    let brackets = format!(
        "context.args.a == \"{}\" // {}\n && true",
        "(".repeat(500),
        "&&".repeat(500)
    );
    for usual in [nested(10, "(", ")"), chain(20, " || "), path(10), brackets] {
        let text = [of(&usual), of(&usual)].join("\n");
        assert_eq!(rules(&text).ids().count(), 2, "{usual}");
    }
}

#[test]
fn the_hash_is_of_the_whole_set_and_of_nothing_else() {
    let file = |name: &str, text: &str| PolicyFile {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let hash = |files: &[PolicyFile]| Rules::load(files).expect("no faults").hash();
    let (one, two) = (
        file("a", "permit(principal,action,resource);"),
        file("b", "forbid(principal,action,resource);"),
    );
    assert_eq!(hash(&[one.clone(), two.clone()]), hash(&[two.clone(), one.clone()]));
    assert_ne!(hash(&[one.clone(), two.clone()]), hash(std::slice::from_ref(&one)));
    assert_ne!(hash(&[file("a", "")]), hash(&[file("b", "")]));
}

#[test]
fn a_rule_reads_what_it_names_and_nothing_else() {
    let reads = |condition: &str| {
        let rules = rules(&format!("permit(principal,action,resource) when {{ {condition} }};"));
        match &rules.rule(0).expect("one rule").condition {
            Condition::Contextual(reads) => reads.clone(),
            Condition::None | Condition::ContextFree => Reads::default(),
        }
    };
    let members = |names: &[&str]| Reads {
        arguments: ArgumentsRead::Members(names.iter().map(|&name| name.to_owned()).collect()),
        ..Reads::default()
    };
    let whole = Reads {
        arguments: ArgumentsRead::Whole,
        ..Reads::default()
    };
    for (condition, expected) in [
        ("resource.risk == \"low\"", Reads::default()),
        ("context.args.path like \"/a/*\"", members(&["path"])),
        (
            "context.args has path && context.args.mode.deep == 1",
            members(&["mode", "path"]),
        ),
        ("context has args.path.deeper", members(&["path"])),
        ("context.args[\"odd name\"] == 1", members(&["odd name"])),
        ("context has args", whole.clone()),
        ("context.args == {a: 1}", whole.clone()),
        ("[context.args].contains({})", whole),
        (
            "context.session.labels.contains(\"x\")",
            Reads {
                session: true,
                ..Reads::default()
            },
        ),
        (
            "context.incident.active",
            Reads {
                incident: true,
                ..Reads::default()
            },
        ),
        (
            "context.source.address.isLoopback()",
            Reads {
                source: true,
                ..Reads::default()
            },
        ),
        ("context == {}", Reads::everything()),
        ("(if true then context else context) has args", Reads::everything()),
        ("context has nothing", Reads::default()),
        ("{Var: \"context\"} == {Var: \"context\"}", Reads::default()),
    ] {
        let without_looks = |mut reads: Reads| {
            reads.looks.clear();
            reads
        };
        assert_eq!(without_looks(reads(condition)), without_looks(expected), "{condition}");
    }
}

#[test]
fn typos_are_found() {
    for (text, expected) in [
        (
            "permit(principal, action, resource is Tool) when { resource.rsk == \"low\" };",
            "attribute `rsk`",
        ),
        (
            "permit(principal, action, resource is Tool) when { context.args.n > resource.rsk };",
            "attribute `rsk`",
        ),
        (
            "permit(principal, action, resource is Tool) when { context.args has a && context.args.a == \"x\" || resource.rsk == \"low\" };",
            "attribute `rsk`",
        ),
        (
            "permit(principal, action, resource is Tool) when { (if context.args.x then context.args.y else resource.rsk) == 3 };",
            "attribute `rsk`",
        ),
        (
            "permit(principal, action, resource is Tool) when { [resource.rsk, context.args.x].contains(1) };",
            "attribute `rsk`",
        ),
        (
            "permit(principal is Usr, action, resource);",
            "unrecognized entity type `Usr`",
        ),
        (
            "permit(principal in Gruop::\"dev\", action, resource);",
            "unrecognized entity type `Gruop`",
        ),
        (
            "permit(principal, action == Action::\"tools/cal\", resource);",
            "unrecognized action `Action::\"tools/cal\"`",
        ),
        (
            "permit(principal, action, resource is Tool) when { resource.readOnlyHint };",
            "unable to guarantee safety of access to optional attribute `readOnlyHint`",
        ),
        (
            "permit(principal, action, resource) when { context.sesion.labels.contains(\"x\") };",
            "attribute `sesion`",
        ),
        (
            "permit(principal, action, resource is Tool) when { resource.risk > 3 };",
            "unexpected type",
        ),
        (
            "permit(principal, action, resource is Tool) when { resource.risk == \"hgih\" };",
            "`resource.risk` is never \"hgih\"; it is one of low, medium, high, critical",
        ),
        (
            "permit(principal, action, resource in Server::\"flies\");",
            "no server `flies` is configured",
        ),
        (
            "permit(principal, action, resource == Tool::\"files/raed\");",
            "server `files` offers no tool `raed`",
        ),
        (
            "permit(principal, action, resource == Tool::\"read\");",
            "`read` is not a tool's id",
        ),
        (
            "permit(principal, action, resource == Resource::\"flies/file:///a\");",
            "no server `flies` is configured",
        ),
        (
            "permit(principal, action, resource == Prompt::\"greet\");",
            "`greet` is not a Prompt's id",
        ),
        (
            "permit(principal, action == Action::\"resources/raed\", resource);",
            "unrecognized action `Action::\"resources/raed\"`",
        ),
        (
            "permit(principal, action == Action::\"prompts/get\", resource is Resource);",
            "unable to find an applicable action",
        ),
        (
            "permit(principal, action, resource is Resource) when { resource.risk == \"low\" };",
            "attribute `risk`",
        ),
    ] {
        let warnings = warnings(&format!("@id(\"p\") {text}"));
        assert!(
            warnings.iter().any(|warning| warning.contains(expected)),
            "{text}\n{warnings:#?}"
        );
    }
}

#[test]
fn what_reads_what_is_never_set_is_warned_of() {
    let text = r#"
        @id("a") forbid (principal, action == Action::"tools/call", resource)
        when { resource.risk != "low" && context.session.labels.contains("untrusted") };
        @id("b") permit (principal, action, resource) when { !context.incident.active };
        @id("c") permit (principal, action, resource) when { context.source.authn == "mtls" };"#;
    assert_eq!(
        warnings(text),
        [
            "policy `a`: reads `context.session.labels`, which nothing sets: it is always empty",
            "policy `b`: reads `context.incident`, which nothing sets: it is always normal and not active",
        ]
    );
}

#[test]
fn sound_policies_raise_no_warning() {
    let text = r#"
        @id("dev-reads")
        permit (principal in Group::"dev", action == Action::"tools/call", resource in Server::"files")
        when { resource.risk == "low" && context.args has path && context.args.path like "/srv/agents/files/*" };
        @id("deploy-needs-a-human") @require("approval")
        permit (principal == Agent::"ci-bot", action == Action::"tools/call", resource == Tool::"files/write");
        @id("claims") permit (principal, action == Action::"tools/call", resource)
        when { principal has claims.org && principal.claims.org == "acme" && ["a", "b"].contains(principal.claims.team) };
        @id("arguments") permit (principal, action == Action::"tools/call", resource)
        when { context.args.n + 1 < 5 && context.args.tags.containsAny(["a"]) && !context.args.dry
               && ip(context.args.address).isInRange(ip("10.0.0.0/8")) && context.args.price.lessThan(decimal("9.5"))
               && context.args.list == [] && context.args.nested.deep is User && context has args.x.y }
        unless { context.args.force };
        @id("source") permit (principal, action, resource)
        when { context.source.address.isInRange(ip("10.0.0.0/8")) && context.source.authn == "mtls" };
        @id("hints") permit (principal, action == Action::"tools/call", resource)
        when { resource has readOnlyHint && resource.readOnlyHint == context.args.confirm && resource.tier == "none" };
        @id("others") permit (principal, action == Action::"resources/read", resource in Server::"web");
        @id("by-uri") permit (principal, action == Action::"resources/read", resource == Resource::"web/https://a.example/b");
        @id("asks") permit (principal, action in [Action::"sampling/createMessage", Action::"logging/setLevel"], resource == Server::"web");
        @id("tasks") permit (principal, action == Action::"tasks/update", resource) when { resource.risk == "low" };
        @id("not-yet-discovered") permit (principal, action, resource in Server::"lab");
    "#;
    assert_eq!(warnings(text), Vec::<String>::new());
}

#[test]
fn every_method_is_an_action_and_an_extension_is_one_where_it_is_let_through() {
    for (method, kinds) in crate::access::methods::METHODS {
        for kind in *kinds {
            let text = format!(
                "permit(principal, action == Action::\"{method}\", resource is {});",
                kind.as_str()
            );
            assert_eq!(warnings(&text), Vec::<String>::new(), "{method}");
        }
    }
    let rules = rules("permit(principal, action == Action::\"acme/do \\\"it\\\"\", resource in Server::\"web\");");
    assert!(!rules.check_types(&town()).is_empty());
    let let_through = ["acme/do \"it\"", "acme/do \"it\"", "tools/call"];
    assert_eq!(rules.check_types_with(&town(), &let_through), []);
}

#[test]
fn comparisons_that_a_caller_can_evade_are_told() {
    let told = |text: &str| {
        let rules = rules(text);
        rules
            .check_types(&town())
            .into_iter()
            .map(|warning| warning.message)
            .filter(|message| message.contains("not caught"))
            .count()
    };
    let forbid = |condition: &str| told(&format!("forbid(principal, action, resource) when {{ {condition} }};"));
    let permit = |condition: &str| told(&format!("permit(principal, action, resource) when {{ {condition} }};"));
    assert_eq!(forbid("context.args has n && context.args.n > 100"), 1);
    assert_eq!(forbid("if context.args has n then context.args.n > 100 else false"), 1);
    assert_eq!(forbid("!(context.args has n) || context.args.n > 100"), 0);
    assert_eq!(forbid("context.args.path like \"/etc/*\""), 1);
    assert_eq!(forbid("[\"rm\", \"mv\"].contains(context.args.tool)"), 1);
    assert_eq!(forbid("context.args.mode == \"write\""), 1);
    assert_eq!(forbid("!(context.args.mode == \"read\")"), 0);
    assert_eq!(permit("context.args.mode != \"write\""), 1);
    assert_eq!(permit("context.args has mode && context.args.mode == \"read\""), 0);
    assert_eq!(
        told("permit(principal, action, resource) unless { context.args.mode == \"write\" };"),
        1
    );
}
