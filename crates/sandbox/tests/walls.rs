//! Real processes inside real walls: what they can and cannot do, as root and as an ordinary user.

#[cfg(test)]
#[path = "walls/bench.rs"]
mod bench;
#[cfg(test)]
#[path = "walls/confined.rs"]
mod confined;
#[cfg(test)]
#[path = "walls/crowded.rs"]
mod crowded;
#[cfg(test)]
#[path = "walls/doors.rs"]
mod doors;
#[cfg(test)]
#[path = "walls/failing.rs"]
mod failing;
#[cfg(test)]
#[path = "walls/held.rs"]
mod held;
#[cfg(test)]
#[path = "walls/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "walls/kept.rs"]
mod kept;
#[cfg(test)]
#[path = "walls/lifetime.rs"]
mod lifetime;
#[cfg(test)]
#[path = "walls/limited.rs"]
mod limited;
#[cfg(test)]
#[path = "walls/places.rs"]
mod places;
#[cfg(test)]
#[path = "walls/removed.rs"]
mod removed;
#[cfg(test)]
#[path = "walls/sockets.rs"]
mod sockets;
#[cfg(test)]
#[path = "walls/tiers.rs"]
mod tiers;
