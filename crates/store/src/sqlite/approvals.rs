//! Approvals, and what was approved last. Arguments are sealed by whoever hands them in, and gone once their approval is over.

use policy::{Approval, ApprovalState, ApprovalStore, ApprovalVerdict, Plan, StepUp, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use vocabulary::{Digest, Risk, ServerId, Timestamp, ToolName};

use super::{Store, StoreFault, digest_of, time_of};

const COLUMNS: &str = "id, state, sub, issuer, client_id, org_id, server, tool, definition_hash, args_hash, beside, risk, policy_id, \
                       policy_set, created, expires, decided_by, decided_at, reason, step_up";

impl ApprovalStore for Store {
    fn open_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let which = "WHERE state IN ('pending', 'approved') ORDER BY created, id";
        select(&self.connection(), which, &[]).map_err(told)
    }

    fn approval_of(&self, key: &Digest) -> Result<Option<Approval>, StoreError> {
        let which = "WHERE plan_key = ?1 ORDER BY created DESC, rowid DESC LIMIT 1";
        let found = select(&self.connection(), which, &[&key.as_bytes().as_slice()]);
        found.map(|found| found.into_iter().next()).map_err(told)
    }

    fn move_approval(&self, from: ApprovalState, to: &Approval) -> Result<bool, StoreError> {
        moved(&self.connection(), from, to).map_err(|fault| told(fault.into()))
    }
}

fn told(fault: StoreFault) -> StoreError {
    StoreError(Box::new(fault))
}

/// Of ended approvals so many are listed at most.
const MOST_LISTED: usize = 10_000;

impl Store {
    /// The newest approvals, whatever became of them, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approvals(&self) -> Result<Vec<Approval>, StoreFault> {
        let which = "ORDER BY created DESC, rowid DESC LIMIT ?1";
        select(
            &self.connection(),
            which,
            &[&i64::try_from(MOST_LISTED).unwrap_or(i64::MAX)],
        )
    }

    /// One approval.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approval(&self, id: &str) -> Result<Option<Approval>, StoreFault> {
        Ok(select(&self.connection(), "WHERE id = ?1", &[&id])?.into_iter().next())
    }

    /// Keeps a new approval with its sealed arguments.
    ///
    /// # Errors
    /// When the store cannot be written, or knows the id already.
    pub fn add_approval(&self, approval: &Approval, sealed: &[u8]) -> Result<(), StoreFault> {
        let Approval { plan, .. } = approval;
        self.connection().execute(
            "INSERT INTO approvals (id, plan_key, state, sub, issuer, client_id, org_id, server, tool, definition_hash, args_hash,
                                    beside, risk, policy_id, policy_set, created, expires, arguments)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
            params![
                approval.id,
                plan.key().as_bytes().as_slice(),
                approval.state.as_str(),
                plan.sub,
                plan.issuer,
                plan.client_id,
                plan.org_id,
                plan.server.as_str(),
                plan.tool.as_str(),
                plan.definition_hash.as_bytes().as_slice(),
                plan.args_hash.as_bytes().as_slice(),
                plan.beside.as_bytes().as_slice(),
                plan.risk.as_str(),
                &*plan.policy_id,
                plan.policy_set.as_bytes().as_slice(),
                approval.created.as_micros(),
                approval.expires.as_micros(),
                sealed,
            ],
        )?;
        Ok(())
    }

    /// Takes an approval away again that nobody was told of.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn withdraw_approval(&self, id: &str) -> Result<(), StoreFault> {
        self.connection().execute("DELETE FROM approvals WHERE id = ?1", [id])?;
        Ok(())
    }

    /// The sealed arguments of an approval that is not over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn approval_arguments(&self, id: &str) -> Result<Option<Vec<u8>>, StoreFault> {
        let connection = self.connection();
        let found = connection.query_row("SELECT arguments FROM approvals WHERE id = ?1", [id], |row| row.get(0));
        Ok(found.optional()?.flatten())
    }

    /// Keeps what was approved last of a caller and a tool, sealed.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_approved(&self, plan: &Plan, sealed: &[u8], at: Timestamp) -> Result<(), StoreFault> {
        self.connection().execute(
            "INSERT INTO approved_arguments (owner, server, tool, arguments, at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (owner, server, tool) DO UPDATE SET arguments = ?4, at = ?5",
            params![
                plan.owner().as_bytes().as_slice(),
                plan.server.as_str(),
                plan.tool.as_str(),
                sealed,
                at.as_micros()
            ],
        )?;
        Ok(())
    }

    /// What was approved last of this caller and this tool, sealed, and when.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_approved(&self, plan: &Plan) -> Result<Option<(Vec<u8>, Timestamp)>, StoreFault> {
        let connection = self.connection();
        let found = connection.query_row(
            "SELECT arguments, at FROM approved_arguments WHERE owner = ?1 AND server = ?2 AND tool = ?3",
            params![
                plan.owner().as_bytes().as_slice(),
                plan.server.as_str(),
                plan.tool.as_str()
            ],
            |row| Ok((row.get(0)?, time_of(row.get(1)?))),
        );
        Ok(found.optional()?)
    }

    /// Forgets what ended, and what was approved, before this time.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn forget_approvals(&self, before: Timestamp) -> Result<(), StoreFault> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction.execute(
            "DELETE FROM approvals WHERE state NOT IN ('pending', 'approved') AND expires < ?1",
            [before.as_micros()],
        )?;
        transaction.execute("DELETE FROM approved_arguments WHERE at < ?1", [before.as_micros()])?;
        transaction.commit()?;
        Ok(())
    }
}

fn moved(connection: &Connection, from: ApprovalState, to: &Approval) -> rusqlite::Result<bool> {
    let verdict = to.verdict.as_ref();
    let changed = connection.execute(
        "UPDATE approvals SET state = ?3, decided_by = ?4, decided_at = ?5, reason = ?6, step_up = ?7,
                arguments = CASE WHEN ?8 THEN arguments END
         WHERE id = ?1 AND state = ?2",
        params![
            to.id,
            from.as_str(),
            to.state.as_str(),
            verdict.map(|verdict| &verdict.by),
            verdict.map(|verdict| verdict.at.as_micros()),
            verdict.and_then(|verdict| verdict.reason.as_ref()),
            verdict.map(|verdict| verdict.step_up.as_str()),
            to.state.is_open(),
        ],
    )?;
    Ok(changed == 1)
}

fn select(connection: &Connection, which: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<Approval>, StoreFault> {
    let mut rows = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM approvals {which}"))?;
    let rows = rows.query_map(with, |row| Ok(read(row)))?;
    rows.map(|row| row?.ok_or(StoreFault::Damaged { table: "approvals" }))
        .collect()
}

/// `None` for a row that this program does not write.
fn read(row: &Row<'_>) -> Option<Approval> {
    let text = |place: usize| row.get::<_, String>(place).ok();
    let maybe = |place: usize| row.get::<_, Option<String>>(place).ok();
    let digest = |place: usize| digest_of(&row.get::<_, Vec<u8>>(place).ok()?);
    let time = |place: usize| row.get::<_, i64>(place).ok().map(time_of);
    let plan = Plan {
        sub: text(2)?,
        issuer: text(3)?,
        client_id: maybe(4)?,
        org_id: maybe(5)?,
        server: ServerId::parse(&text(6)?).ok()?,
        tool: ToolName::parse(&text(7)?).ok()?,
        definition_hash: digest(8)?,
        args_hash: digest(9)?,
        beside: digest(10)?,
        risk: Risk::parse(&text(11)?)?,
        policy_id: text(12)?.into(),
        policy_set: digest(13)?,
    };
    let verdict = match maybe(16)? {
        None => None,
        Some(by) => Some(ApprovalVerdict {
            by,
            at: time(17)?,
            reason: maybe(18)?,
            step_up: StepUp::parse(&text(19)?)?,
        }),
    };
    Some(Approval {
        id: text(0)?,
        state: ApprovalState::parse(&text(1)?)?,
        plan,
        created: time(14)?,
        expires: time(15)?,
        verdict,
    })
}
