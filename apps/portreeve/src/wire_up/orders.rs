//! The operator's word on what servers offer, laid over what is stored: the same while a gateway runs and while none does.

use control::Operator;
use control::ports::{Approval, Heeded};
use policy::{
    ApproveFault, Inventory, InventoryEvent, ItemId, ItemKind, OperatorOrder, RiskOf, Said, ServerFacts, StoredServer,
    approve, approve_instructions, heed,
};
use vocabulary::{Digest, Timestamp};

/// Approves something of a server if its definition is still the one that was looked at; what to tell the operator otherwise.
pub(crate) fn approve_as_seen(
    stored: &mut StoredServer,
    item: &ItemId,
    seen: Digest,
) -> Result<InventoryEvent, Approval> {
    let known = stored.digests(item.kind, &item.name);
    let first = *known.first().ok_or(Approval::NotOffered)?;
    if !known.contains(&seen) {
        return Err(Approval::Changed { now: first });
    }
    let approved = match item.kind {
        ItemKind::Instructions => approve_instructions(stored),
        ItemKind::Tool | ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
            approve(stored, &item.name, seen)
        }
    };
    approved.map_err(|fault| match fault {
        ApproveFault::BadDefinition(fault) => Approval::Unusable(fault.to_string()),
        ApproveFault::NotOffered | ApproveFault::NoInstructions => Approval::NotOffered,
    })
}

/// What is configured, as far as an order is judged by it.
pub(crate) struct Configured<'a> {
    pub(crate) facts: Option<&'a ServerFacts>,
    pub(crate) risk_of: RiskOf<'a>,
}

/// Who says so, now.
pub(crate) fn said(operator: &Operator, at: Timestamp) -> Said {
    Said {
        by: operator.name().to_owned(),
        at,
    }
}

/// Takes an operator's word on one thing; what to tell the operator where it is not taken.
pub(crate) fn heed_order(
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
