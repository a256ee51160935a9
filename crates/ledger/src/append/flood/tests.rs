//! Floods: nothing is lost, nothing allowed is folded, and what is held stays bounded.

use tokio::sync::oneshot;
use vocabulary::{Digest, Risk};

use super::*;
use crate::Status;
use crate::sample;

fn submit(ending: Ending) -> Submission {
    let entry = Final {
        arrival: sample::arrival(),
        ending,
        size_bytes_out: 10,
        count: 1,
        result_ref: None,
    };
    let (reply, _) = oneshot::channel();
    Submission {
        entry: Entry::Final(Box::new(entry)),
        replies: Replies::One(reply),
    }
}

fn shared(submission: &Submission) -> &Final {
    match &submission.entry {
        Entry::Final(entry) => entry,
        Entry::Intent(_) | Entry::Event(_) => panic!("only finals are folded"),
    }
}

// R152
#[test]
fn past_a_hundred_in_a_second_the_rest_shares_one_record_and_the_counts_add_up() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let refuse = || submit(sample::refused(ReasonCode::DenyRateLimit));
    let alone = (0..250).filter_map(|_| floods.sift(refuse(), start)).count();
    let mut out = Vec::new();
    floods.release(start + Duration::from_millis(999), &mut out);
    assert_eq!((alone, out.len()), (100, 0));
    assert_eq!(floods.next_release(), Some(start + WINDOW));
    floods.release(start + WINDOW, &mut out);
    let [one] = out.as_slice() else {
        panic!("one record is shared")
    };
    let entry = shared(one);
    assert_eq!((entry.count, one.replies.len()), (150, 150));
    assert_eq!((entry.arrival.size_bytes_in, entry.size_bytes_out), (150 * 512, 1500));
    assert_eq!(floods.next_release(), None);
    assert!(
        floods.sift(refuse(), start + WINDOW).is_some(),
        "the next second begins anew"
    );
}

#[test]
fn kinds_differ_by_address_reason_and_caller() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let flood = |floods: &mut Floods, make: &dyn Fn() -> Submission| {
        (0..101).filter_map(|_| floods.sift(make(), start)).count()
    };
    let unidentified = || {
        submit(Ending::Unidentified {
            reason: ReasonCode::DenyNoAuthn,
        })
    };
    assert_eq!(flood(&mut floods, &unidentified), 100);
    assert_eq!(
        flood(&mut floods, &|| submit(Ending::Unidentified {
            reason: ReasonCode::DenyInvalidToken
        })),
        100
    );
    assert_eq!(
        flood(&mut floods, &|| submit(sample::refused(ReasonCode::DenyNoAuthn))),
        100
    );
    let elsewhere = || {
        let mut submission = unidentified();
        if let Entry::Final(entry) = &mut submission.entry {
            entry.arrival.address = Ipv6Addr::LOCALHOST.into();
        }
        submission
    };
    assert_eq!(flood(&mut floods, &elsewhere), 100);
}

#[test]
fn what_was_allowed_or_waits_for_a_person_is_never_folded() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let pending = || Ending::Refused {
        who: sample::principal(),
        message: sample::message(Risk::High),
        decision: sample::decision(Verdict::RequireApproval, ReasonCode::RequireApproval),
    };
    for _ in 0..300 {
        assert!(floods.sift(submit(sample::answered()), start).is_some());
        assert!(
            floods
                .sift(submit(sample::called(Risk::Low, Status::Error, Some(true))), start)
                .is_some()
        );
        assert!(floods.sift(submit(pending()), start).is_some());
    }
}

/// The record that 200 refusals share, each told apart by `differ` alone.
fn fold(differ: &dyn Fn(&mut MessageFacts, u8)) -> MessageFacts {
    let (mut floods, start) = (Floods::default(), Instant::now());
    for number in 0..200u8 {
        let mut ending = sample::refused(ReasonCode::DenySchemaViolation);
        if let Ending::Refused { message, .. } = &mut ending {
            // Of a tool that is in no inventory: what the caller calls it makes no new kind.
            message.definition_hash = None;
            differ(message, number);
        }
        floods.sift(submit(ending), start);
    }
    let mut out = Vec::new();
    floods.release_all(&mut out);
    let [one] = out.as_slice() else {
        panic!("one record is shared")
    };
    let Ending::Refused { message, .. } = &shared(one).ending else {
        panic!("a refusal stays one")
    };
    message.clone()
}

#[test]
fn a_shared_record_does_not_state_what_differs_and_states_the_rest() {
    let alike = MessageFacts {
        definition_hash: None,
        ..sample::message(Risk::Low)
    };
    assert_eq!(fold(&|_, _| {}), alike);
    assert_eq!(
        fold(&|message, number| message.args_hash = Some(Digest::of(&[number]))),
        MessageFacts {
            args_hash: None,
            args_canon: None,
            args_ref: None,
            ..alike.clone()
        }
    );
    assert_eq!(
        fold(&|message, number| message.session = Some(Digest::of(&[number]))),
        MessageFacts {
            session: None,
            ..alike.clone()
        }
    );
    assert_eq!(
        fold(&|message, number| message.method = number.to_string()),
        MessageFacts {
            method: String::new(),
            ..alike.clone()
        }
    );
    assert_eq!(
        fold(&|message, number| message.tool_name = Some(number.to_string())),
        MessageFacts {
            tool_name: None,
            ..alike.clone()
        }
    );
    assert_eq!(
        fold(&|message, number| message.server_id = Some(number.to_string())),
        MessageFacts {
            server_id: None,
            ..alike.clone()
        }
    );
}

#[test]
fn unreadable_requests_differ_by_caller_and_by_no_name_that_a_caller_makes_up() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let mut flood = |who: &Arc<Principal>, server: &str| {
        let make = || {
            submit(Ending::Unreadable {
                who: Arc::clone(who),
                reason: ReasonCode::DenyMalformed,
                server_id: Some(server.to_owned()),
            })
        };
        (0..150).filter_map(|_| floods.sift(make(), start)).count()
    };
    let (one, mut other) = (sample::principal(), Principal::clone(&sample::principal()));
    other.sub = "mallory".to_owned();
    assert_eq!(flood(&one, "files"), 100);
    assert_eq!(flood(&Arc::new(other), "files"), 100, "another caller");
    assert_eq!(flood(&one, "mail"), 0, "a path may name any server");
    assert_eq!(flood(&sample::principal(), "files"), 0);
    let mut out = Vec::new();
    floods.release(start + WINDOW, &mut out);
    let named = out.iter().map(|submission| {
        let Ending::Unreadable { who, server_id, .. } = &shared(submission).ending else {
            panic!("they stay unreadable")
        };
        (who.sub.as_str(), server_id.as_deref())
    });
    assert_eq!(
        named.collect::<Vec<_>>(),
        [(one.sub.as_str(), None), ("mallory", Some("files"))],
        "only the server that all of them named is stated"
    );
}

#[test]
fn a_caller_that_makes_up_servers_makes_no_more_records() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let mut flood = |is_known: bool| {
        let make = |number: usize| {
            let mut ending = sample::refused(ReasonCode::DenyRateLimit);
            if let Ending::Refused { message, .. } = &mut ending {
                message.server_id = Some(format!("s{number}"));
                message.definition_hash = is_known.then(|| Digest::of(b"definition"));
            }
            submit(ending)
        };
        (0..500).filter_map(|number| floods.sift(make(number), start)).count()
    };
    assert_eq!(flood(false), 100);
    assert_eq!(flood(true), 500, "servers that are there are told apart");
}

#[test]
fn nothing_is_waited_for_while_nothing_is_held() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    for _ in 0..100 {
        assert!(
            floods
                .sift(submit(sample::refused(ReasonCode::DenyRateLimit)), start)
                .is_some()
        );
        assert_eq!(floods.next_release(), None);
    }
    assert!(
        floods
            .sift(submit(sample::refused(ReasonCode::DenyRateLimit)), start)
            .is_none()
    );
    assert_eq!(floods.next_release(), Some(start + WINDOW));
}

#[test]
fn kinds_and_held_answers_are_bounded() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    for number in 0..MOST_KINDS + 10 {
        let mut ending = sample::refused(ReasonCode::DenyToolNotFound);
        if let Ending::Refused { message, .. } = &mut ending {
            message.tool_name = Some(number.to_string());
        }
        assert!(floods.sift(submit(ending), start).is_some());
    }
    assert_eq!((floods.kinds.len(), floods.ends.len()), (MOST_KINDS, MOST_KINDS));
    let mut out = Vec::new();
    floods.release(start + WINDOW, &mut out);
    assert_eq!((floods.kinds.len(), floods.ends.len(), out.len()), (0, 0, 0));

    for _ in 0..100 + MOST_HELD {
        floods.sift(
            submit(Ending::Unidentified {
                reason: ReasonCode::DenyNoAuthn,
            }),
            start,
        );
    }
    floods.release(start, &mut out);
    assert_eq!(out.iter().map(|one| shared(one).count).sum::<u64>(), MOST_HELD as u64);
    assert_eq!(floods.held, 0);
}

fn stranger(address: IpAddr) -> Submission {
    let mut submission = submit(Ending::Unidentified {
        reason: ReasonCode::DenyNoAuthn,
    });
    if let Entry::Final(entry) = &mut submission.entry {
        entry.arrival.address = address;
    }
    submission
}

#[test]
fn strangers_of_however_many_networks_have_a_ceiling() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let network = |number: u32| Ipv4Addr::from_bits(0x0a00_0001 + number * 256).into();
    let alone = (0..8_000).filter_map(|number| floods.sift(stranger(network(number)), start));
    assert_eq!(alone.count(), STRANGERS_ALONE as usize);
    let mut out = Vec::new();
    floods.release(start + WINDOW, &mut out);
    let [one] = out.as_slice() else {
        panic!("one record is shared")
    };
    assert_eq!(
        shared(one).count,
        8_000 - u64::from(STRANGERS_ALONE),
        "and nothing is lost"
    );
    assert!(
        floods.sift(stranger(network(1)), start + WINDOW).is_some(),
        "the next second begins anew"
    );
}

#[test]
fn the_addresses_of_one_network_are_one_stranger() {
    let networks: [&dyn Fn(u8) -> IpAddr; 2] = [&|last| Ipv4Addr::new(192, 0, 2, last).into(), &|last| {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 7, u16::from(last), 1, 2, 3).into()
    }];
    for address in networks {
        let (mut floods, start) = (Floods::default(), Instant::now());
        let alone = (0..200).filter_map(|last| floods.sift(stranger(address(last)), start));
        assert_eq!(alone.count(), ALONE as usize);
    }
}

#[test]
fn a_network_past_its_hundred_uses_up_nothing_of_what_strangers_share() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let mut flood = |third: u8, requests: u16| {
        let address = Ipv4Addr::new(192, 0, third, 1).into();
        (0..requests)
            .filter_map(|_| floods.sift(stranger(address), start))
            .count()
    };
    assert_eq!(flood(1, 1_000), 100);
    assert_eq!(flood(2, 1), 1, "another network is not silenced by it");
    assert_eq!(flood(2, 500), 99);
    assert_eq!(flood(3, 500), 100);
    assert_eq!(flood(4, 500), 0, "the ceiling counts every record, not every network");
}

#[test]
fn a_refusal_whose_arguments_are_kept_has_a_record_of_its_own() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    let refuse = || {
        let mut ending = sample::refused(ReasonCode::DenyRateLimit);
        if let Ending::Refused { message, .. } = &mut ending {
            message.args_ref = crate::PayloadRef::parse("pld_20260301_2");
        }
        submit(ending)
    };
    let alone = (0..250).filter_map(|_| floods.sift(refuse(), start)).count();
    assert_eq!((alone, floods.next_release()), (250, None));
}
