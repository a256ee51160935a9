//! Which addresses are public, which an operator may open by a `private` range, and which nobody may.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is to a sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// On the internet.
    Public,
    /// Inside somewhere; only by a `private` range.
    Inside,
    /// Link-local, metadata, and addresses that stand for others: never.
    Never,
}

/// Says what an address is. A mapped IPv4 address is judged as what it maps.
pub(crate) fn classify(address: IpAddr) -> Class {
    match address.to_canonical() {
        IpAddr::V4(address) if NEVER_V4.iter().any(|range| range.contains(IpAddr::V4(address))) => Class::Never,
        IpAddr::V4(address) if INSIDE_V4.iter().any(|range| range.contains(IpAddr::V4(address))) => Class::Inside,
        IpAddr::V4(_) => Class::Public,
        IpAddr::V6(address) if address == Ipv6Addr::LOCALHOST => Class::Inside,
        IpAddr::V6(address) if NEVER_V6.iter().any(|range| range.contains(IpAddr::V6(address))) => Class::Never,
        IpAddr::V6(address) if INSIDE_V6.iter().any(|range| range.contains(IpAddr::V6(address))) => Class::Inside,
        IpAddr::V6(address) if GLOBAL_V6.contains(IpAddr::V6(address)) => Class::Public,
        IpAddr::V6(_) => Class::Inside,
    }
}

/// A range of addresses: a network and the length of its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    network: IpAddr,
    length: u8,
}

/// Why a text is no range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeFault {
    NotCidr,
    Never,
}

impl Range {
    /// Reads `10.20.0.0/16`. Bits behind the prefix must be zero, so that what is written is what is meant.
    pub(crate) fn parse(text: &str) -> Result<Self, RangeFault> {
        let (network, length) = text.split_once('/').ok_or(RangeFault::NotCidr)?;
        if length.is_empty() || length.len() > 3 || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RangeFault::NotCidr);
        }
        let network: IpAddr = network.parse().map_err(|_| RangeFault::NotCidr)?;
        let length: u8 = length.parse().map_err(|_| RangeFault::NotCidr)?;
        let range = Self { network, length };
        let mapped = matches!(network, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        if length > width(network) || mapped || bits(network) & !range.mask() != 0 {
            return Err(RangeFault::NotCidr);
        }
        let never = NEVER_V4.iter().chain(&NEVER_V6);
        if never.copied().any(|never| range.overlaps(never)) && range != LOOPBACK_V6 {
            return Err(RangeFault::Never);
        }
        Ok(range)
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let address = match self.network {
            IpAddr::V4(_) => address.to_canonical(),
            IpAddr::V6(_) => address,
        };
        width(address) == width(self.network) && (bits(address) & self.mask()) == bits(self.network)
    }

    fn overlaps(self, other: Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// The bits of the prefix, at the place where [`bits`] has them.
    fn mask(self) -> u128 {
        let full = u128::MAX >> (128 - u32::from(width(self.network)));
        let behind = u32::from(width(self.network)).saturating_sub(u32::from(self.length));
        full & u128::MAX.checked_shl(behind).unwrap_or(0)
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Range {
    Range {
        network: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        length,
    }
}

const fn v6(text: [u16; 8], length: u8) -> Range {
    let [a, b, c, d, e, f, g, h] = text;
    Range {
        network: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
        length,
    }
}

/// No `private` range may touch these.
const NEVER_V4: [Range; 7] = [
    v4(0, 0, 0, 0, 8),          // "this host": connects to loopback
    v4(169, 254, 0, 0, 16),     // link-local; metadata of most clouds
    v4(168, 63, 129, 16, 32),   // Azure's host agent
    v4(100, 100, 100, 200, 32), // metadata of Alibaba
    v4(192, 0, 0, 192, 32),     // metadata of Oracle
    v4(224, 0, 0, 0, 4),        // multicast
    v4(240, 0, 0, 0, 4),        // reserved, broadcast
];

const INSIDE_V4: [Range; 11] = [
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
];

/// Link-local, metadata, multicast, and forms that carry an IPv4 address past the IPv4 rules.
const NEVER_V6: [Range; 10] = [
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96),               // unspecified, IPv4-compatible
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),          // IPv4-translated (SIIT)
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96),       // NAT64
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),       // NAT64, local use
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),          // Teredo
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),          // 6to4
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), // metadata of AWS
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),  // metadata of Google
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),          // link-local
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),           // multicast
];

const INSIDE_V6: [Range; 3] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),     // IETF protocol assignments
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),     // documentation
];

const GLOBAL_V6: Range = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
const LOOPBACK_V6: Range = v6([0, 0, 0, 0, 0, 0, 0, 1], 128);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(text: &str) -> Class {
        classify(text.parse().unwrap())
    }

    #[test]
    fn every_address_has_its_class() {
        for text in [
            "93.184.216.34",
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "198.17.0.1",
            "2606:4700::1",
            "::ffff:1.1.1.1",
        ] {
            assert_eq!(class(text), Class::Public, "{text}");
        }
        for text in [
            "10.0.0.1",
            "127.0.0.1",
            "127.255.0.9",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "::1",
            "fd00::1",
            "fc00::1",
            "2001:db8::1",
            "3fff::1",
            "fec0::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "100::1",
        ] {
            assert_eq!(class(text), Class::Inside, "{text}");
        }
        for text in [
            "169.254.169.254",
            "169.254.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::7f00:1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::5db8:d822",
            "64:ff9b:1::1",
            "2001::1",
            "2002:7f00:1::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:0:127.0.0.1",
        ] {
            assert_eq!(class(text), Class::Never, "{text}");
        }
    }

    #[test]
    fn ranges_are_cidr_and_never_what_nobody_may_reach() {
        for text in [
            "10.20.0.0/16",
            "127.0.0.0/8",
            "127.0.0.1/32",
            "::1/128",
            "fd12:3456::/32",
            "93.184.216.34/32",
            "192.168.0.0/16",
        ] {
            assert!(Range::parse(text).is_ok(), "{text}");
        }
        for text in [
            "10.20.0.0",
            "10.20.0.1/16",
            "10.0.0.0/33",
            "10.0.0.0/",
            "/8",
            "10.0.0.0/+8",
            "10.0.0/8",
            "name/8",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/8 ",
        ] {
            assert_eq!(Range::parse(text), Err(RangeFault::NotCidr), "{text}");
        }
        for text in [
            "169.254.169.254/32",
            "169.254.0.0/16",
            "0.0.0.0/0",
            "128.0.0.0/1",
            "fe80::/10",
            "::/0",
            "fd00:ec2::254/128",
            "168.63.129.16/32",
            "64:ff9b::/96",
            "0.0.0.0/8",
            "224.0.0.0/4",
            "2002::/16",
        ] {
            assert_eq!(Range::parse(text), Err(RangeFault::Never), "{text}");
        }
    }

    #[test]
    fn a_range_holds_what_it_says() {
        let range = Range::parse("10.20.0.0/16").unwrap();
        let holds = |text: &str| range.contains(text.parse().unwrap());
        assert!(holds("10.20.0.1") && holds("10.20.255.255") && holds("::ffff:10.20.1.1"));
        assert!(!holds("10.21.0.1") && !holds("10.19.255.255") && !holds("::10.20.0.1") && !holds("fd00::1"));
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_what_it_maps(bits in any::<u32>()) {
            let plain = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(classify(IpAddr::V4(plain)), classify(IpAddr::V6(plain.to_ipv6_mapped())));
        }

        #[test]
        fn outside_the_global_prefix_nothing_is_public(bits in any::<u128>()) {
            let address = Ipv6Addr::from_bits(bits);
            if address.to_ipv4_mapped().is_none() && (bits >> 125) != 1 {
                prop_assert_ne!(classify(IpAddr::V6(address)), Class::Public);
            }
        }

        #[test]
        fn any_text_is_a_range_or_a_fault(text in ".{0,40}", bits in any::<u32>(), length in 0u8..40) {
            let _ = Range::parse(&text);
            let _ = Range::parse(&format!("{}/{length}", Ipv4Addr::from_bits(bits)));
        }
    }
}
