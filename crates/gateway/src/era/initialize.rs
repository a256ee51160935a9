//! How we introduce ourselves, in either era.

mod instructions;

use std::sync::Arc;

use mcp::{Era, Version, compose};
use vocabulary::Principal;

use crate::edge::route::Route;
use crate::message::OwnResult;
use crate::message::own::OwnValue;
use crate::offers::Offers;
use crate::snapshot::Snapshot;

/// The result of `initialize`.
pub(crate) fn initialize_result(
    snapshot: &Snapshot,
    who: &Arc<Principal>,
    route: &Route,
    version: Version,
) -> OwnResult {
    let mut members = vec![
        ("protocolVersion", OwnValue::Text(version.as_str().into())),
        (
            "capabilities",
            Offers::of(snapshot, who, route, Era::Legacy).capabilities(Era::Legacy),
        ),
        ("serverInfo", OwnValue::Fixed(compose::OUR_INFO)),
    ];
    members.extend(instructions(snapshot, who, route));
    OwnResult::object(&members)
}

/// The result of `server/discover`.
pub(crate) fn discover_result(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route) -> OwnResult {
    let meta = vec![(mcp::translate::SERVER_INFO, OwnValue::Fixed(compose::OUR_INFO))];
    let mut members = vec![
        ("resultType", OwnValue::Fixed("\"complete\"")),
        ("supportedVersions", supported_versions()),
        (
            "capabilities",
            Offers::of(snapshot, who, route, Era::Modern).capabilities(Era::Modern),
        ),
        ("ttlMs", OwnValue::Number(0)),
        ("cacheScope", OwnValue::Fixed("\"private\"")),
        ("_meta", OwnValue::Object(meta)),
    ];
    members.extend(instructions(snapshot, who, route));
    OwnResult::object(&members)
}

/// The modern versions we speak.
pub(crate) fn supported_versions() -> OwnValue<'static> {
    let modern = Version::ALL.into_iter().filter(|version| version.era() == Era::Modern);
    OwnValue::Array(modern.map(|version| OwnValue::Text(version.as_str().into())).collect())
}

/// A server's approved instructions on its own route; on the others' those of all, each under its server's name.
fn instructions(snapshot: &Snapshot, who: &Arc<Principal>, route: &Route) -> Option<(&'static str, OwnValue<'static>)> {
    let text = match route.server() {
        Some(server) => snapshot.instructions_for(who, server)?.to_string(),
        None => instructions::of_all(snapshot, who)?,
    };
    Some(("instructions", OwnValue::Text(text.into())))
}
