//! The operator's word on what servers offer, laid over what is stored: the same while a gateway runs and while none does.

use control::Operator;
use control::ports::{Approval, Heeded, PortError};
use policy::{
    ApproveFault, Inventory, InventoryEvent, ItemId, ItemKind, OperatorOrder, RiskOf, Said, ServerFacts, StoredServer,
    approve, approve_instructions, approve_listed, heed,
};
use vocabulary::{Digest, ServerId, Timestamp};

/// Where what is stored of servers can be changed, and the log told of it.
pub(crate) trait Books {
    /// Changes what is stored of a server, and records it first; nothing of it where the change is not taken. `None` if nothing is
    /// stored of it.
    fn with_stored<Instead>(
        &self,
        server: &ServerId,
        change: impl FnOnce(&mut StoredServer) -> Result<InventoryEvent, Instead>,
        operator: &Operator,
    ) -> Result<Option<Result<(), Instead>>, PortError>;

    /// Reads what is configured of a server.
    fn with_configured<T>(&self, server: &ServerId, read: impl FnOnce(&Configured<'_>) -> T) -> T;

    /// What time it is.
    fn now(&self) -> Timestamp;
}

/// What is configured, as far as an order is judged by it.
pub(crate) struct Configured<'a> {
    pub(crate) facts: Option<&'a ServerFacts>,
    pub(crate) risk_of: RiskOf<'a>,
}

/// Approves something as it was looked at.
pub(crate) fn approve_item(
    books: &impl Books,
    (item, seen): (&ItemId, Digest),
    operator: &Operator,
) -> Result<Approval, PortError> {
    let change = |stored: &mut StoredServer| {
        books.with_configured(&item.server, |configured| {
            let facts = configured.facts.ok_or(Approval::NotOffered)?;
            approve_as_seen(stored, facts, (item, seen))
        })
    };
    let done = books.with_stored(&item.server, change, operator)?;
    Ok(match done {
        None => Approval::NotOffered,
        Some(Ok(())) => Approval::Approved,
        Some(Err(instead)) => instead,
    })
}

/// Takes an operator's word on something.
pub(crate) fn heed_item(
    books: &impl Books,
    (item, order): (&ItemId, OperatorOrder),
    operator: &Operator,
) -> Result<Heeded, PortError> {
    let said = Said {
        by: operator.name().to_owned(),
        at: books.now(),
    };
    let change = |stored: &mut StoredServer| {
        books.with_configured(&item.server, |configured| {
            heed_order(stored, configured, (item, order), said)
        })
    };
    let done = books.with_stored(&item.server, change, operator)?;
    Ok(match done {
        None => Heeded::NotOffered,
        Some(Ok(())) => Heeded::Done,
        Some(Err(instead)) => instead,
    })
}

/// Approves something of a server if its definition is still the one that was looked at; what to tell the operator otherwise.
fn approve_as_seen(
    stored: &mut StoredServer,
    facts: &ServerFacts,
    (item, seen): (&ItemId, Digest),
) -> Result<InventoryEvent, Approval> {
    let known = stored.digests(item.kind, &item.name);
    let first = *known.first().ok_or(Approval::NotOffered)?;
    if !known.contains(&seen) {
        return Err(Approval::Changed { now: first });
    }
    let approved = match item.kind {
        ItemKind::Instructions => approve_instructions(stored),
        ItemKind::Tool => approve(stored, &item.name, seen),
        ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
            approve_listed(stored, (item.kind, &item.name), seen)
        }
    };
    let event = approved.map_err(|fault| match fault {
        ApproveFault::BadDefinition(fault) => Approval::Unusable(fault.to_string()),
        ApproveFault::NotOffered | ApproveFault::NoInstructions => Approval::NotOffered,
    })?;
    stored.bind((item.kind, &item.name, seen), &facts.identity);
    Ok(event)
}

/// Takes an operator's word on one thing; what to tell the operator where it is not taken.
fn heed_order(
    stored: &mut StoredServer,
    configured: &Configured<'_>,
    (item, order): (&ItemId, OperatorOrder),
    said: Said,
) -> Result<InventoryEvent, Heeded> {
    let facts = configured.facts.ok_or(Heeded::NotOffered)?;
    let in_the_file = facts.tools.get(&*item.name).copied().flatten();
    if matches!(order, OperatorOrder::Classify(_)) && in_the_file.is_some() {
        return Err(Heeded::Refused(
            "the configuration file says the risk of this tool, and its word stands above this one; change it there",
        ));
    }
    let event = heed(stored, (item.kind, &item.name), order, said).map_err(|_| Heeded::NotOffered)?;
    if let OperatorOrder::Classify(risk) = order {
        let inventory = Inventory::assemble(
            std::slice::from_ref(facts),
            std::slice::from_ref(stored),
            configured.risk_of,
        );
        let definitions = inventory.tool(&item.server, &item.name);
        if definitions.iter().any(|tool| tool.risk != risk) {
            return Err(Heeded::Refused(
                "a rule on risk calls this tool critical, and what is critical is never lowered; the rules are in `[risk] files`",
            ));
        }
    }
    Ok(event)
}
