//! What is made to be slow is judged as everything else is, or masked.

use super::*;

#[test]
fn the_short_way_to_a_group_leads_where_the_engine_says() {
    let mut short = 0;
    for (_, _, examples) in examples(EMBEDDED) {
        for text in examples.finds.iter().chain(&examples.passes) {
            let text = fill(&text.joined(), &mut Draw::new(1));
            // Glued to itself a text has other ways to be read.
            for text in [
                text.clone(),
                format!("{text}{text}"),
                text.replace('=', ":="),
                text.replace(' ', "  "),
            ] {
                for rule in &DETECTOR.rules {
                    let Some(group) = &rule.group else { continue };
                    for found in rule.pattern.find_iter(text.as_bytes()) {
                        let seen = text.as_bytes().get(..(found.end() + 1).min(text.len())).unwrap();
                        let said = rule.pattern.captures_at(seen, found.start()).unwrap();
                        let said = said.get(1).map(|group| group.range());
                        let way = group.find(seen, found.start());
                        assert!(
                            way.is_none() || way == said,
                            "{}: {way:?} {said:?} in {text:?}",
                            rule.id
                        );
                        short += usize::from(way.is_some());
                    }
                }
            }
        }
    }
    assert!(short > 100, "{short} groups were found the short way");
}

#[test]
fn once_a_flood_is_no_longer_judged_no_token_can_stand_between_what_is_masked() {
    for prefix in ["glpat-", "0Q~", "AIza", "xoxb-"] {
        let flood = prefix.repeat(20_000);
        let findings = find(&flood);
        let ranges: Vec<_> = findings.iter().flat_map(|finding| &finding.parts).collect();
        let first = ranges.first().map(|(_, range)| range.start);
        assert!(
            first.is_some_and(|first| first < flood.len() * 3 / 4),
            "{prefix} {first:?}"
        );
        let gap = ranges.windows(2).find(|pair| pair[0].1.end < pair[1].1.start);
        assert_eq!(gap, None, "{prefix}");
    }
}

#[test]
fn refused_matches_that_do_not_overlap_are_never_masked() {
    let text = "Authorization: Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(20_000);
    assert!(find(&text).is_empty());
    let text = "Server=db;Database=app;User Id=app;Password=password;\n".repeat(20_000);
    assert!(find(&text).iter().all(|finding| finding.redact == Redact::DetectOnly));
}
