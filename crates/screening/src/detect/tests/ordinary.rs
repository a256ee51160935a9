//! Texts without secrets, as tools give them: code, prose, hashes, ids, images, lock files, logs, tables.

use super::*;

const WORDS: &str = "the gateway reads a token and checks its key before the secret service answers with password rules for \
    every user who signs in from another host while the cache keeps an authorization header and the basic bearer form \
    of access that tasks need to risk a disk path or a patch of the msg queue in project files under version control \
    so that tests of the credit card form pass and no private key is shown in logs when a session ends or a client \
    asks for more data than the limit allows in one page of results sorted by date and name with an index on each row";

const IDENTIFIERS: &str = "token api_key secret_name password_hash session_id user_name task_list hf_config sk_items key_id \
    access_level path pattern index value result client_id bearer_auth card_type order_id request_id npm_config ghost";

/// A text of one of the kinds.
pub(super) fn text(seed: u64) -> String {
    let draw = &mut Draw::new(seed.wrapping_mul(31) ^ 0xfeed);
    let kinds: [fn(&mut Draw) -> String; 16] = [
        prose, rust, javascript, minified, python, hashes, uuids, image, cargo_lock, npm_lock, git_log, numbers, yaml,
        addresses, json, log_lines,
    ];
    kinds[(seed as usize) % kinds.len()](draw)
}

fn word(draw: &mut Draw) -> &'static str {
    let words: Vec<_> = WORDS.split_whitespace().collect();
    words[draw.below(words.len())]
}

fn words(draw: &mut Draw, count: usize) -> String {
    (0..count).map(|_| word(draw)).collect::<Vec<_>>().join(" ")
}

fn name(draw: &mut Draw) -> &'static str {
    let names: Vec<_> = IDENTIFIERS.split_whitespace().collect();
    names[draw.below(names.len())]
}

fn lines(draw: &mut Draw, count: usize, mut line: impl FnMut(&mut Draw) -> String) -> String {
    (0..count).map(|_| line(draw)).collect::<Vec<_>>().join("\n")
}

fn drawn(draw: &mut Draw, template: &str) -> String {
    fill(template, draw)
}

fn prose(draw: &mut Draw) -> String {
    lines(draw, 12, |draw| {
        format!(
            "{}. Bearer of {}, basic {}.",
            words(draw, 14),
            word(draw),
            words(draw, 5)
        )
    })
}

fn rust(draw: &mut Draw) -> String {
    lines(draw, 15, |draw| {
        let (a, b) = (name(draw), name(draw));
        format!(
            "    let {a}: &str = config.get(\"{b}\").map_or(\"\", |{a}| &{a}.{b}); // {}",
            words(draw, 6)
        )
    })
}

fn javascript(draw: &mut Draw) -> String {
    lines(draw, 15, |draw| {
        let (a, b) = (name(draw), name(draw));
        format!(
            "const {a} = process.env.{}; fetch(`https://api.example.com/${{{b}}}?{a}=${{{a}}}`);",
            b.to_uppercase()
        )
    })
}

fn minified(draw: &mut Draw) -> String {
    let part = |draw: &mut Draw| {
        let (a, b) = (drawn(draw, "{an:2}"), name(draw));
        format!(
            "function {a}(e,t){{var n=e.{b}||{{}};return t?n[\"{b}\"]:{a}(n.{b},!0)}}var {a}$={};",
            draw.below(1 << 30)
        )
    };
    (0..40).map(|_| part(draw)).collect()
}

fn python(draw: &mut Draw) -> String {
    lines(draw, 12, |draw| {
        let (a, b) = (name(draw), name(draw));
        format!(
            "{a} = os.environ[\"{}\"]\nif {a} is None:\n    raise ValueError(\"{b} {}\")",
            b.to_uppercase(),
            words(draw, 4)
        )
    })
}

fn hashes(draw: &mut Draw) -> String {
    lines(draw, 12, |draw| {
        drawn(
            draw,
            "{hex:64}  dist/app-{hex:8}.js\n{hex:40} {hex:32}\nsha512-{b64:86}==",
        )
    })
}

fn uuids(draw: &mut Draw) -> String {
    lines(draw, 20, |draw| drawn(draw, "{uuid} {dig:10} 01{up:24} {hex:24}"))
}

fn image(draw: &mut Draw) -> String {
    let length = 400 + draw.below(12) * 300;
    format!(
        "<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{}==\">",
        drawn(draw, &format!("{{b64:{length}}}"))
    )
}

fn cargo_lock(draw: &mut Draw) -> String {
    lines(draw, 8, |draw| {
        let (a, b) = (word(draw), word(draw));
        let sum = drawn(draw, "{hex:64}");
        format!(
            "[[package]]\nname = \"{a}-{b}\"\nversion = \"{}.{}.0\"\nchecksum = \"{sum}\"",
            draw.below(9),
            draw.below(99)
        )
    })
}

fn npm_lock(draw: &mut Draw) -> String {
    lines(draw, 8, |draw| {
        let a = word(draw);
        let sum = drawn(draw, "{b64:86}");
        format!(
            "\"node_modules/{a}\": {{\"resolved\": \"https://registry.npmjs.org/{a}/-/{a}-1.2.3.tgz\", \"integrity\": \"sha512-{sum}==\"}}"
        )
    })
}

fn git_log(draw: &mut Draw) -> String {
    lines(draw, 8, |draw| {
        let (id, author) = (drawn(draw, "{hex:40}"), word(draw));
        format!(
            "commit {id}\nAuthor: {author} <{author}@example.com>\nDate:   Mon Nov 16 04:03:53 2026 +0000\n\n    {}\n",
            words(draw, 9)
        )
    })
}

fn numbers(draw: &mut Draw) -> String {
    lines(draw, 12, |draw| {
        drawn(
            draw,
            "0.{dig:16},-{dig:3}.{dig:14};17{dig:11} 17{dig:14} {dig:7} {dig:4}-{dig:2}-{dig:2} 1{dig:17} +4{dig:11}",
        )
    })
}

fn yaml(draw: &mut Draw) -> String {
    lines(draw, 10, |draw| {
        let (a, b) = (name(draw), word(draw));
        let digest = drawn(draw, "{hex:64}");
        format!(
            "{a}:\n  image: registry.example.com/{b}/{a}@sha256:{digest}\n  {a}: ${{{}}}\n  path: /srv/{b}/{a}",
            b.to_uppercase()
        )
    })
}

fn addresses(draw: &mut Draw) -> String {
    lines(draw, 12, |draw| {
        let (a, b, c) = (word(draw), word(draw), name(draw));
        let id = drawn(draw, "{an:22}");
        format!(
            "https://www.example.com:8443/{a}/{b}/{id}?q={a}%20{b}&{c}={}&ref=user@host postgres://db.internal/{a}",
            draw.below(10_000)
        )
    })
}

fn json(draw: &mut Draw) -> String {
    lines(draw, 8, |draw| {
        let id = drawn(draw, "{uuid}");
        let note = format!("{}\n\t\"{}\"", words(draw, 8), words(draw, 3));
        serde_json::json!({"id": id, name(draw): word(draw), "note": note, "n": draw.below(1 << 40), "etag": drawn(draw, "W/\"{hex:32}\"")}).to_string()
    })
}

fn log_lines(draw: &mut Draw) -> String {
    lines(draw, 14, |draw| {
        let (trace, span) = (drawn(draw, "{hex:32}"), drawn(draw, "{hex:16}"));
        format!(
            "\u{1b}[32m2026-11-16T04:03:53.{}Z\u{1b}[0m INFO trace={trace} span={span} {}={} {}",
            draw.below(1000),
            name(draw),
            word(draw),
            words(draw, 7)
        )
    })
}
