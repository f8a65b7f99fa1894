//! The shared vectors (`tests/vectors`), through the store: what Python and Lua are held to as well.

use headgate_core::algorithm::{Charge, NEVER};
use headgate_core::hash::Keyed;
use headgate_core::{Algorithm, Quota};
use headgate_node::store::memory::MemoryStore;
use headgate_node::store::{LimitResult, Mode};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Vector {
    name: String,
    algorithm: String,
    count: u64,
    window_us: u64,
    burst: Option<u64>,
    start_us: u64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    at_us: u64,
    op: String,
    count: Option<u64>,
    window_us: Option<u64>,
    burst: Option<u64>,
    #[serde(default)]
    cost: u64,
    of: Option<usize>,
    amount: Option<u64>,
    actual: Option<u64>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    allowed: Option<bool>,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    reset_after_us: Option<u64>,
    returned: Option<u64>,
}

struct Run {
    store: MemoryStore,
    limit: LimitResult,
    /// What each check step was charged.
    charges: Vec<Option<(LimitResult, Charge)>>,
}

impl Run {
    fn ask(&mut self, step: &Step, place: &str) {
        let mode = if step.op == "check" { Mode::Check } else { Mode::Peek };
        let mut limit = LimitResult { cost: step.cost, ..self.limit };
        self.store.decide_one(&mut limit, mode, step.at_us);
        let expect = &step.expect;
        assert_eq!(Some(limit.allowed()), expect.allowed, "{place}");
        assert_eq!(Some(limit.measure.remaining), expect.remaining, "{place}");
        assert_eq!((limit.wait_us != NEVER).then_some(limit.wait_us), expect.retry_after_us, "{place}");
        assert_eq!(Some(limit.measure.reset_after_us), expect.reset_after_us, "{place}");
        let charge =
            Charge { at_us: step.at_us, cost: step.cost, used_after: limit.used_after, refunds: limit.refunds };
        self.charges.push(limit.spent.then_some((limit, charge)));
    }

    fn settle(&mut self, step: &Step, place: &str) {
        self.charges.push(None);
        let charge = step.of.and_then(|of| self.charges[of].take());
        let returned = charge.map_or(0, |(limit, charge)| match step.actual {
            Some(actual) if actual > charge.cost => {
                self.store.spend(&limit, actual - charge.cost, step.at_us);
                0
            }
            actual => {
                let amount = actual.map_or(step.amount.unwrap_or(u64::MAX), |actual| charge.cost - actual);
                self.store.refund(&limit, &charge, amount, step.at_us)
            }
        });
        assert_eq!(Some(returned), step.expect.returned, "{place}");
    }
}

fn run(vector: &Vector) {
    let algorithm = Algorithm::from_name(&vector.algorithm).expect("a known algorithm");
    let keyed = Keyed::random();
    let (mut count, mut window_us, mut burst) = (vector.count, vector.window_us, vector.burst);
    let quota = |count, window_us, burst| Quota::new(count, window_us, burst, Some(algorithm)).expect("a quota");
    let limit = LimitResult::ask(
        None,
        0,
        false,
        quota(count, window_us, burst),
        0,
        keyed.text(1, "subject"),
        keyed.text(2, "limit"),
    );
    let mut run = Run { store: MemoryStore::new(16, vector.start_us), limit, charges: Vec::new() };
    for (nth, step) in vector.steps.iter().enumerate() {
        let place = format!("{}, step {nth}", vector.name);
        if step.count.or(step.window_us).or(step.burst).is_some() {
            count = step.count.unwrap_or(count);
            window_us = step.window_us.unwrap_or(window_us);
            burst = step.burst.or(burst);
            run.limit.quota = quota(count, window_us, burst);
        }
        match step.op.as_str() {
            "check" | "peek" => run.ask(step, &place),
            _ => run.settle(step, &place),
        }
    }
}

#[test]
fn the_store_answers_as_every_vector_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the folder of vectors") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let vectors: Vec<Vector> = serde_json::from_str(&text).expect("a file of vectors");
        vectors.iter().for_each(run);
        count += vectors.len();
    }
    assert!(count > 50, "only {count} vectors were found");
}
