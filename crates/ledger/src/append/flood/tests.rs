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

#[test]
fn a_shared_record_does_not_state_what_differs() {
    let (mut floods, start) = (Floods::default(), Instant::now());
    for number in 0..200u8 {
        let mut ending = sample::refused(ReasonCode::DenySchemaViolation);
        if let Ending::Refused { message, .. } = &mut ending {
            message.args_hash = Some(Digest::of(&[number]));
        }
        floods.sift(submit(ending), start);
    }
    let mut out = Vec::new();
    floods.release_all(&mut out);
    let Ending::Refused { message, .. } = &shared(&out[0]).ending else {
        panic!("a refusal stays one")
    };
    assert_eq!((message.args_hash, message.args_canon), (None, None));
    assert_eq!(message.session, Some(Digest::of(b"session")));
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
