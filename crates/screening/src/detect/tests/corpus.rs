//! Recall and false positives on texts drawn from templates: the same on every machine.

use std::collections::BTreeMap;

use super::disguises::Disguise;
use super::*;

/// What is to be masked; hints do not count.
fn masked(blocks: &[String]) -> Vec<Finding> {
    let pieces: Vec<_> = blocks
        .iter()
        .map(|raw| Piece {
            joins: Joins::Previous,
            ..text_piece(raw)
        })
        .collect();
    let found = DETECTOR.find(&pieces, &NOBODY);
    found
        .into_iter()
        .filter(|finding| finding.redact == Redact::Mask)
        .collect()
}

/// The blocks with every part of `found` replaced.
fn redacted(blocks: &[String], found: &[Finding]) -> Vec<String> {
    let mut blocks = blocks.to_vec();
    let mut parts: Vec<_> = found
        .iter()
        .flat_map(|finding| finding.parts.iter().map(|part| (part, finding.category)))
        .collect();
    parts.sort_by_key(|((piece, range), _)| (*piece, std::cmp::Reverse(range.start)));
    let mut last = (usize::MAX, usize::MAX);
    for ((piece, range), category) in parts {
        // Overlapping parts are masked together.
        let end = if last.0 == *piece {
            range.end.min(last.1)
        } else {
            range.end
        };
        blocks[*piece].replace_range(range.start..end, &format!("[REDACTED:{}]", category.as_str()));
        last = (*piece, range.start);
    }
    blocks
}

// R073
#[test]
fn secrets_are_found_in_every_disguise() {
    let mut missed = BTreeMap::<_, Vec<String>>::new();
    let (mut count, mut found) = (0_u32, 0_u32);
    for (id, redact, examples) in examples(EMBEDDED) {
        if redact == Redact::DetectOnly {
            continue;
        }
        for (number, template) in examples.finds.iter().enumerate() {
            for disguise in Disguise::ALL {
                let draw = &mut Draw::new(count.into());
                let secret = fill(&template.joined(), draw);
                count += 1;
                let blocks = disguise.blocks(&secret, draw);
                let findings = masked(&blocks);
                let after = redacted(&blocks, &findings);
                // Found means: masked, and nothing is left to find.
                if !findings.is_empty() && masked(&after).is_empty() {
                    found += 1;
                } else {
                    missed.entry(disguise).or_default().push(format!("{id}#{number}"));
                }
            }
        }
    }
    let recall = f64::from(found) / f64::from(count);
    println!("positives {count}, found {found}, recall {recall:.4}; missed {missed:#?}");
    assert!(count >= 2000, "{count}");
    assert!(recall >= 0.98, "{recall} {missed:#?}");
}

#[test]
fn ordinary_texts_are_left_alone() {
    let (mut wrong, mut hints) = (Vec::new(), BTreeMap::<String, u32>::new());
    let count = 5008;
    for seed in 0..count {
        let text = ordinary::text(seed);
        for finding in find(&text) {
            if finding.redact == Redact::Mask {
                wrong.push((finding.rule.to_string(), text.chars().take(200).collect::<String>()));
            } else {
                *hints.entry(finding.rule.to_string()).or_default() += 1;
            }
        }
    }
    let rate = wrong.len() as f64 / count as f64;
    println!(
        "negatives {count}, masked {}, rate {rate:.5}; hints {hints:?}",
        wrong.len()
    );
    assert!(rate <= 0.002, "{rate} {wrong:#?}");
}
