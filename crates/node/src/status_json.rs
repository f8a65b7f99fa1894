//! How the store and the feed are, as JSON: for `/readyz`, the CLI and Python alike.

use crate::Engine;
use crate::events::Event;
use crate::store::remote::ShardStatus;
use headgate_core::answer::json_text;
use std::sync::atomic::Ordering;

/// `null` when no control plane sends the rules.
pub fn feed_json(engine: &Engine) -> String {
    let Some(status) = engine.feed.status() else { return "null".to_owned() };
    let stale_us = engine.wall_us().saturating_sub(status.contact_us);
    format!(
        r#"{{"position":"{}","source":{},"stale_s":{:.3},"lag_s":{:.6},"refused":{},"error":{}}}"#,
        engine.feed.position(),
        json_text(&status.source),
        stale_us as f64 / 1e6,
        engine.feed.lag_us.load(Ordering::Relaxed) as f64 / 1e6,
        engine.feed.refused.load(Ordering::Relaxed),
        status.error.as_deref().map_or("null".to_string(), json_text),
    )
}

/// `null` when counters are kept in this process.
pub fn store_json(engine: &Engine) -> String {
    let Some(status) = engine.store_status() else { return "null".to_owned() };
    let shards: Vec<String> = status.shards.iter().map(shard_json).collect();
    let events: Vec<String> = engine.events.recent().iter().map(event_json).collect();
    format!(
        r#"{{"nodes":{},"bytes_per_subject":{},"debts":{},"debts_forgotten":{},"shards":[{}],"events":[{}]}}"#,
        status.nodes,
        status.bytes_per_subject,
        status.debts,
        status.debts_forgotten,
        shards.join(","),
        events.join(","),
    )
}

fn shard_json(shard: &ShardStatus) -> String {
    format!(
        r#"{{"name":{},"breaker":"{}","connected":{},"calls":{},"requests":{},"errors":{},"timeouts":{},"round_trip_us":{}}}"#,
        json_text(&shard.name),
        shard.breaker,
        shard.connected,
        shard.calls,
        shard.requests,
        shard.errors,
        shard.timeouts,
        shard.round_trip_us,
    )
}

pub fn event_json(event: &Event) -> String {
    format!(
        r#"{{"number":{},"at_ms":{},"kind":"{}","shard":{},"detail":{}}}"#,
        event.number,
        event.at_ms,
        event.kind.name(),
        json_text(&event.shard),
        json_text(&event.detail),
    )
}
