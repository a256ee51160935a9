//! What was counted against each quota. ADR 0073: what is here is never less than what was called.

use policy::{Group, KeptCount, Key, QuotaStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::{Store, StoreFault};

impl QuotaStore for Store {
    fn counts(&self) -> Result<Vec<KeptCount>, StoreError> {
        load(&self.connection()).map_err(|fault| StoreError(Box::new(fault)))
    }

    fn keep_counts(&self, forgotten: &[(String, Key)], counts: &[KeptCount]) -> Result<(), StoreError> {
        save(&mut self.connection(), forgotten, counts).map_err(|fault| StoreError(Box::new(fault)))
    }
}

fn load(connection: &Connection) -> Result<Vec<KeptCount>, StoreFault> {
    let mut rows = connection.prepare("SELECT rule, key, names, groups, ahead FROM quotas")?;
    let rows = rows.query_map([], |row| Ok(read(row)))?;
    rows.map(|row| row?.ok_or(StoreFault::Damaged { table: "quotas" }))
        .collect()
}

fn save(connection: &mut Connection, forgotten: &[(String, Key)], counts: &[KeptCount]) -> Result<(), StoreFault> {
    let transaction = connection.transaction()?;
    let mut forget = transaction.prepare_cached("DELETE FROM quotas WHERE rule = ?1 AND key = ?2")?;
    for (rule, key) in forgotten {
        forget.execute(params![rule, key.as_bytes().as_slice()])?;
    }
    let mut keep = transaction.prepare_cached(
        "INSERT INTO quotas (rule, key, names, groups, ahead) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (rule, key) DO UPDATE SET names = ?3, groups = ?4, ahead = ?5",
    )?;
    for count in counts {
        let KeptCount {
            rule,
            key,
            names,
            groups,
            ahead,
        } = count;
        keep.execute(params![rule, key.as_bytes().as_slice(), names, written(groups), ahead])?;
    }
    drop((forget, keep));
    transaction.commit()?;
    Ok(())
}

/// Sixteen bytes a group: when the last call was, how long before that the first, how many.
fn written(groups: &[Group]) -> Vec<u8> {
    let bytes = |group: &Group| {
        let mut bytes = [0; 16];
        let (last, rest) = bytes.split_at_mut(8);
        let (since, calls) = rest.split_at_mut(4);
        last.copy_from_slice(&group.last.to_be_bytes());
        since.copy_from_slice(&group.since.to_be_bytes());
        calls.copy_from_slice(&group.calls.to_be_bytes());
        bytes
    };
    groups.iter().flat_map(bytes).collect()
}

fn read_groups(bytes: &[u8]) -> Option<Vec<Group>> {
    let (groups, []) = bytes.as_chunks::<16>() else {
        return None;
    };
    let group = |bytes: &[u8; 16]| {
        let (last, rest) = bytes.split_first_chunk::<8>()?;
        let (since, rest) = rest.split_first_chunk::<4>()?;
        Some(Group {
            last: i64::from_be_bytes(*last),
            since: u32::from_be_bytes(*since),
            calls: u32::from_be_bytes(*rest.first_chunk::<4>()?),
        })
    };
    groups.iter().map(group).collect()
}

fn read(row: &Row<'_>) -> Option<KeptCount> {
    let key: Vec<u8> = row.get(1).ok()?;
    Some(KeptCount {
        rule: row.get(0).ok()?,
        key: Key::from_bytes(key.try_into().ok()?),
        names: row.get(2).ok()?,
        groups: read_groups(&row.get::<_, Vec<u8>>(3).ok()?)?,
        ahead: row.get(4).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(key: u8, calls: u32, ahead: u32) -> KeptCount {
        let group = |last| Group {
            last,
            since: 70_000,
            calls,
        };
        KeptCount {
            rule: "principal 1d calls".to_owned(),
            key: Key::from_bytes([key; 16]),
            names: format!("ann {key}"),
            groups: vec![group(-5), group(1_794_744_000_123)],
            ahead,
        }
    }

    #[test]
    fn counts_are_kept_replaced_and_forgotten_across_openings() {
        let home = tempfile_dir("quotas");
        let store = Store::open(&home).expect("a store");
        store.keep_counts(&[], &[count(1, 3, 9), count(2, 4, 0)]).expect("kept");
        store.keep_counts(&[], &[count(1, 7, u32::MAX)]).expect("replaced");
        drop(store);
        let store = Store::open(&home).expect("a store");
        assert_eq!(store.counts().expect("read"), [count(1, 7, u32::MAX), count(2, 4, 0)]);
        // What is forgotten and kept at once is kept: it came after.
        let gone = [1, 2].map(|key| ("principal 1d calls".to_owned(), Key::from_bytes([key; 16])));
        store.keep_counts(&gone, &[count(2, 1, 1)]).expect("forgotten");
        assert_eq!(store.counts().expect("read"), [count(2, 1, 1)]);
        std::fs::remove_dir_all(home).expect("removed");
    }

    #[test]
    fn a_row_that_nobody_wrote_so_is_damage_and_not_nothing() {
        let home = tempfile_dir("damaged-quotas");
        let store = Store::open(&home).expect("a store");
        for (column, value) in [
            ("groups", "x'00'"),
            ("key", "x'00'"),
            ("ahead", "-1"),
            ("ahead", "4294967296"),
        ] {
            store.keep_counts(&[], &[count(1, 3, 9)]).expect("kept");
            let damage = format!("UPDATE quotas SET {column} = {value}");
            store.connection().execute(&damage, []).expect("damaged");
            let told = store.counts().expect_err("damage").0.to_string();
            assert_eq!(told, "a row of `quotas` in the store is damaged", "{column} = {value}");
            store.connection().execute("DELETE FROM quotas", []).expect("emptied");
        }
        std::fs::remove_dir_all(home).expect("removed");
    }

    fn tempfile_dir(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("portreeve-{name}-{}", std::process::id()))
    }
}
