//! What rules may read of one message (ADR 0069). An ordinary text wakes few rules, and each of them reads a few windows of
//! it; one that was made to wake all of them everywhere would cost a hundred times as much. Counted in bytes, so that the
//! bound holds on any machine.

/// Bytes that rules may still read.
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
    #[cfg(test)]
    spent: usize,
}

impl Work {
    /// For a message of as many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self::within(bytes.saturating_mul(EACH).saturating_add(FREE).min(MOST))
    }

    /// As much and no more.
    pub(super) fn within(left: usize) -> Self {
        Self {
            left,
            #[cfg(test)]
            spent: 0,
        }
    }

    /// Takes as much; false if it is not there. Then what could be a secret counts as one, unread, here and from here on.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let rest = self.left.checked_sub(bytes);
        self.left = rest.unwrap_or_default();
        #[cfg(test)]
        {
            self.spent += rest.map_or(0, |_| bytes);
        }
        rest.is_some()
    }

    /// Bytes that were read so far.
    #[cfg(test)]
    pub(super) fn spent(&self) -> usize {
        self.spent
    }

    /// Bytes that may still be read.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left
    }
}

/// For every message: short ones are judged to the end whatever they hold.
pub(super) const FREE: usize = 16 << 20;

/// For each byte of a message.
pub(super) const EACH: usize = 32;

/// For any message, however long: a second or two.
pub(super) const MOST: usize = 256 << 20;
