use super::*;
use headgate_core::hash::Keyed;

const START_US: u64 = 1_700_000_000_000_000;

fn ask(keyed: &Keyed, key: &str, limit: &str) -> LimitResult {
    let quota = headgate_core::limit_text::parse_limit(limit, None).unwrap();
    LimitResult::ask(None, 0, false, quota, 1, keyed.text(1, key), keyed.text(2, limit))
}

fn allowed(store: &MemoryStore, ask: &LimitResult, now_us: u64) -> bool {
    let mut limit = *ask;
    store.decide_one(&mut limit, Mode::Check, now_us);
    limit.allowed()
}

#[test]
fn five_a_minute_admits_five_in_any_minute() {
    let (store, keyed) = (MemoryStore::new(1000, START_US), Keyed::random());
    let ask = ask(&keyed, "a", "5/minute");
    for n in 0..5 {
        assert!(allowed(&store, &ask, START_US + n * 10_000_000));
    }
    assert!(!allowed(&store, &ask, START_US + 59_999_999));
    assert!(allowed(&store, &ask, START_US + 60_000_000));
    assert!(!allowed(&store, &ask, START_US + 60_000_000));
}

#[test]
fn if_one_limit_refuses_none_is_spent() {
    let (store, keyed) = (MemoryStore::new(1000, START_US), Keyed::random());
    let (narrow, wide) = (ask(&keyed, "a", "1/minute"), ask(&keyed, "b", "100/hour"));
    store.decide(&mut [narrow, wide], Mode::Check, START_US);
    let mut answers = [narrow, wide];
    store.decide(&mut answers, Mode::Check, START_US);
    assert!(answers[0].wait_us > 0 && answers[1].wait_us == 0);
    assert_eq!(answers[1].measure.remaining, 99);
}

#[test]
fn a_flood_never_frees_a_refused_key_and_memory_stays_bounded() {
    let (store, keyed) = (MemoryStore::new(10_000, START_US), Keyed::random());
    let victims: Vec<LimitResult> = (0..100).map(|n| ask(&keyed, &format!("victim{n}"), "1/hour")).collect();
    victims.iter().for_each(|victim| assert!(allowed(&store, victim, START_US)));
    for n in 0..300_000 {
        allowed(&store, &ask(&keyed, &format!("flood{n}"), "1/hour"), START_US);
    }
    victims.iter().for_each(|victim| assert!(!allowed(&store, victim, START_US + 1_000_000)));
    let occupancy = store.occupancy();
    assert!(occupancy.keys <= 10_000 * 9 / 8 + 64, "{occupancy:?}");
    assert!(occupancy.cells <= store.shards.len(), "{occupancy:?}");
}

#[test]
fn a_flood_on_one_limit_leaves_room_for_another() {
    let (store, keyed) = (MemoryStore::new(10_000, START_US), Keyed::random());
    for n in 0..100_000 {
        allowed(&store, &ask(&keyed, &format!("flood{n}"), "1/hour"), START_US);
    }
    for n in 0..100 {
        assert!(allowed(&store, &ask(&keyed, &format!("calm{n}"), "1/minute"), START_US));
    }
}

#[test]
fn a_key_that_gets_room_starts_from_what_its_cell_counted() {
    let (store, keyed) = (MemoryStore::new(1, START_US), Keyed::random());
    for n in 0..3 {
        allowed(&store, &ask(&keyed, &format!("full{n}"), "2/second burst 2"), START_US);
    }
    let late = ask(&keyed, "late", "3/hour");
    for _ in 0..4 {
        allowed(&store, &late, START_US);
    }
    let later_us = START_US + 60_000_000; // The full ones are dead by now.
    assert!(!allowed(&store, &late, later_us), "its usage came along");
}

#[test]
fn dead_keys_make_room_again() {
    let (store, keyed) = (MemoryStore::new(1_000, START_US), Keyed::random());
    for round in 0..50u64 {
        for n in 0..1_000 {
            let ask = ask(&keyed, &format!("{round}.{n}"), "5/second");
            assert!(allowed(&store, &ask, START_US + round * 5_000_000));
        }
    }
    let occupancy = store.occupancy();
    assert!(occupancy.keys <= 1_200 && occupancy.cells == 0, "{occupancy:?}");
}

#[test]
fn every_algorithm_keeps_its_state_across_growth() {
    for algorithm in Algorithm::ALL {
        let (store, keyed) = (MemoryStore::new(100_000, START_US), Keyed::random());
        let make = |n: u64| LimitResult {
            quota: Quota::new(40, 3_600_000_000, None, Some(algorithm)).unwrap(),
            ..ask(&keyed, &n.to_string(), "40/hour")
        };
        for step in 0..40 {
            for n in 0..500 {
                assert!(allowed(&store, &make(n), START_US + step * 1_000_000), "{algorithm} {step} {n}");
            }
        }
        (0..500).for_each(|n| assert!(!allowed(&store, &make(n), START_US + 41_000_000), "{algorithm} {n}"));
    }
}
