//! Tokens: the hash, never the token.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use vocabulary::{ActorType, Digest, Role, ServerId, ServerScope, Timestamp};

use super::{Store, StoreFault, digest_of, time_of};

/// What a token is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// The data plane (`ptr_agt_`).
    Agent,
    /// The admin listener (`ptr_adm_`), and what its holder may do there.
    Admin(Role),
}

impl TokenKind {
    fn written(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Agent => ("agent", None),
            Self::Admin(role) => ("admin", Some(role.as_str())),
        }
    }

    fn read(kind: &str, role: Option<&str>) -> Option<Self> {
        match (kind, role) {
            ("agent", None) => Some(Self::Agent),
            ("admin", Some(role)) => Role::parse(role).map(Self::Admin),
            _ => None,
        }
    }
}

/// A token as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRow {
    /// Its name in listings; no part of the token.
    pub id: String,
    /// What it is good for.
    pub kind: TokenKind,
    /// SHA-256 of the token.
    pub hash: Digest,
    /// Whom it stands for.
    pub sub: String,
    /// What kind of actor that is.
    pub actor_type: ActorType,
    /// The client it was issued to.
    pub client_id: Option<String>,
    /// The organisation.
    pub org_id: Option<String>,
    /// Groups, as policies see them.
    pub groups: BTreeSet<String>,
    /// The servers it is good for.
    pub servers: ServerScope,
    /// The harness run it was made for.
    pub run: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// When it was revoked, if it was.
    pub revoked: Option<Timestamp>,
}

/// What came of revoking a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revocation {
    /// It is revoked now.
    Revoked,
    /// It was revoked before.
    AlreadyRevoked,
    /// There is no token of this id.
    Unknown,
}

impl Store {
    /// Keeps a new token.
    ///
    /// # Errors
    /// When the store fails, or a token with this id or hash is kept already.
    pub fn insert_token(&self, token: &TokenRow) -> Result<(), StoreFault> {
        let (scope, servers) = match &token.servers {
            ServerScope::Every => ("every", Vec::new()),
            ServerScope::Only(servers) => ("only", servers.iter().map(ServerId::as_str).collect()),
        };
        let list =
            |items: Vec<&str>| serde_json::to_string(&items).map_err(|_| StoreFault::Damaged { table: "tokens" });
        let (kind, role) = token.kind.written();
        self.connection().execute(
            "INSERT INTO tokens (id, kind, hash, sub, actor_type, client_id, org_id, groups, scope, servers, created, expires, revoked, run, role)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                token.id,
                kind,
                token.hash.as_bytes().as_slice(),
                token.sub,
                token.actor_type.as_str(),
                token.client_id,
                token.org_id,
                list(token.groups.iter().map(String::as_str).collect())?,
                scope,
                list(servers)?,
                token.created.as_micros(),
                token.expires.as_micros(),
                token.revoked.map(Timestamp::as_micros),
                token.run,
                role,
            ],
        )?;
        Ok(())
    }

    /// Every token, oldest first, expired and revoked ones included.
    ///
    /// # Errors
    /// When the store fails or a row is damaged: no token of a damaged table can be trusted.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreFault> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT id, kind, hash, sub, actor_type, client_id, org_id, groups, scope, servers, created, expires, revoked, run, role
             FROM tokens ORDER BY created, id",
        )?;
        let rows = statement.query_map([], |row| Ok(read_token(row)))?;
        rows.map(|row| row?.ok_or(StoreFault::Damaged { table: "tokens" }))
            .collect()
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// When the store fails: the token may still be good then.
    pub fn revoke_token(&self, id: &str, now: Timestamp) -> Result<Revocation, StoreFault> {
        let connection = self.connection();
        let changed = connection.execute(
            "UPDATE tokens SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL",
            params![id, now.as_micros()],
        )?;
        if changed > 0 {
            return Ok(Revocation::Revoked);
        }
        let known = connection
            .query_row("SELECT 1 FROM tokens WHERE id = ?1", [id], |_| Ok(()))
            .optional()?;
        Ok(if known.is_some() {
            Revocation::AlreadyRevoked
        } else {
            Revocation::Unknown
        })
    }
}

fn read_token(row: &Row<'_>) -> Option<TokenRow> {
    let text = |index| row.get::<_, String>(index).ok();
    let optional = |index| row.get::<_, Option<String>>(index).ok();
    let list = |index| text(index).and_then(|list| serde_json::from_str::<BTreeSet<String>>(&list).ok());
    let servers = match text(8)?.as_str() {
        "every" => ServerScope::Every,
        "only" => ServerScope::Only(
            list(9)?
                .iter()
                .map(|id| ServerId::parse(id))
                .collect::<Result<_, _>>()
                .ok()?,
        ),
        _ => return None,
    };
    Some(TokenRow {
        id: text(0)?,
        kind: TokenKind::read(&text(1)?, optional(14)?.as_deref())?,
        hash: digest_of(&row.get::<_, Vec<u8>>(2).ok()?)?,
        sub: text(3)?,
        actor_type: ActorType::parse(&text(4)?)?,
        client_id: optional(5)?,
        org_id: optional(6)?,
        groups: list(7)?,
        servers,
        run: optional(13)?,
        created: time_of(row.get(10).ok()?),
        expires: time_of(row.get(11).ok()?),
        revoked: row.get::<_, Option<i64>>(12).ok()?.map(time_of),
    })
}
