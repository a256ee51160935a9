//! The eras that a server speaks, and the one it is spoken to in for a client.

use mcp::Era;

/// The eras that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Both,
}

impl Eras {
    /// The era to speak for a client of this one: the client's, where the server has it.
    pub(crate) fn toward(self, client: Era) -> Era {
        match self {
            Self::Legacy => Era::Legacy,
            Self::Modern => Era::Modern,
            Self::Both => client,
        }
    }

    pub(crate) fn each(self) -> &'static [Era] {
        match self {
            Self::Legacy => &[Era::Legacy],
            Self::Modern => &[Era::Modern],
            Self::Both => &[Era::Modern, Era::Legacy],
        }
    }
}
