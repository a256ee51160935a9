//! The doors of a sandbox under attack, in network namespaces that the tests make themselves: a host, a sandbox whose
//! every address is local, and an internet with public, private and metadata addresses. Every row looks for its canary:
//! what the far side saw, not what the client was told. Needs root, or user namespaces.

#[cfg(test)]
mod clients;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod names;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod world;
