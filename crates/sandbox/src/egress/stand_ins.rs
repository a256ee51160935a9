//! The addresses that stand for names inside one sandbox. They come from the benchmarking network, which is routed
//! nowhere: an address has a meaning only at the doors of the sandbox that asked for it.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use crate::egress::host::Host;

/// Remembers which name each address stands for.
#[derive(Default)]
pub(crate) struct StandIns(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_name: HashMap<Host, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, Host>,
    /// Oldest first.
    order: VecDeque<Host>,
    last: u32,
}

impl StandIns {
    /// The address that stands for a name, the same each time while it is remembered.
    pub(crate) fn address_of(&self, host: &Host) -> Ipv4Addr {
        let mut table = vocabulary::lock(&self.0);
        if let Some(address) = table.by_name.get(host) {
            return *address;
        }
        if table.order.len() >= MOST_NAMES {
            table.forget_oldest();
        }
        // Addresses go round all 2^17, so one that was forgotten is not soon given to another name.
        table.last = (table.last + 1) % (1 << HOST_BITS);
        let address = Ipv4Addr::from_bits(NETWORK.to_bits() | table.last);
        table.by_name.insert(host.clone(), address);
        table.by_address.insert(address, host.clone());
        table.order.push_back(host.clone());
        address
    }

    /// The name that an address stands for.
    pub(crate) fn name_of(&self, address: IpAddr) -> Option<Host> {
        let IpAddr::V4(address) = address.to_canonical() else {
            return None;
        };
        let table = vocabulary::lock(&self.0);
        table.by_address.get(&address).cloned()
    }
}

impl Table {
    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.order.pop_front()
            && let Some(address) = self.by_name.remove(&oldest)
        {
            self.by_address.remove(&address);
        }
    }
}

/// 198.18.0.0/15.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const HOST_BITS: u32 = 17;

/// A `*.` entry matches as many names as a sandbox can think of.
const MOST_NAMES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_and_an_address_its_name() {
        let stand_ins = StandIns::default();
        let (one, two) = (Host::parse(b"one.test").unwrap(), Host::parse(b"two.test").unwrap());
        let address = stand_ins.address_of(&one);
        assert_eq!(address, Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(stand_ins.address_of(&two), Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(stand_ins.address_of(&one), address);
        assert_eq!(stand_ins.name_of(IpAddr::V4(address)), Some(one.clone()));
        assert_eq!(stand_ins.name_of(IpAddr::V6(address.to_ipv6_mapped())), Some(one));
        assert_eq!(stand_ins.name_of("198.18.9.9".parse().unwrap()), None);
    }

    #[test]
    fn a_hundred_and_fifty_thousand_names_stay_bounded_and_unmixed() {
        let stand_ins = StandIns::default();
        for number in 0..150_000 {
            let host = Host::parse(format!("n{number}.test").as_bytes()).unwrap();
            let address = stand_ins.address_of(&host);
            assert_eq!(stand_ins.name_of(IpAddr::V4(address)), Some(host));
            assert!((198, 18) == (address.octets()[0], address.octets()[1] & 0xfe));
        }
        let table = stand_ins.0.lock().unwrap();
        assert_eq!(
            (table.by_name.len(), table.by_address.len(), table.order.len()),
            (4096, 4096, 4096)
        );
    }
}
