use super::support::Store;

#[test]
fn the_whole_tree_of_a_kind_is_printed() {
    Store::new().run(&["explain", "ipamconfigurations.spec", "--recursive"]).prints(
        0,
        "
GROUP:      projectcalico.org
KIND:       IPAMConfiguration
VERSION:    v3

FIELD: spec <Object>

DESCRIPTION:
    What is asked for.

FIELDS:
  strictAffinity\t<boolean>
  maxBlocksPerHost\t<integer>
  kubeVirtVMAddressPersistence\t<string>
    enum: Enabled, Disabled
  autoAllocateBlocks\t<boolean>
  ipCooldownSeconds\t<integer>
",
    );
    for kind in ["ipamconfiguration", "ippool", "ipreservation", "node"] {
        let tree = Store::new().run(&["explain", kind, "--recursive"]).exits(0).out.clone();
        assert!(tree.contains("  metadata\t<Object>\n    name\t<string> -required-\n"), "{tree}");
    }
}

#[test]
fn a_field_says_what_it_accepts_and_what_its_absence_means() {
    let text = "
GROUP:      projectcalico.org
KIND:       IPAMConfiguration
VERSION:    v3

FIELD: maxBlocksPerHost <integer>

DESCRIPTION:
    The most blocks of one family that may be affine to one host. 0 means the default.
    Accepted: 0 to 2147483647
    Default: 20
";
    for field in ["ipamconfig.spec.maxBlocksPerHost", "IPAMConfiguration.maxBlocksPerHost"] {
        Store::new().run(&["explain", field]).prints(0, text);
    }
}

#[test]
fn a_field_that_is_not_there_is_answered_with_those_that_are() {
    Store::new().run(&["explain", "ipreservation.spec.reservedCidrs.x"]).exits(2);
    Store::new().run(&["explain", "ipreservation.spec.reservedCidr"]).says(
        2,
        "
error: IPReservation has no field `spec.reservedCidr`; did you mean `reservedCIDRs`?
  known: reservedCIDRs
",
    );
    Store::new().run(&["explain", "ipamblock"]).exits(2);
    Store::new().run(&["explain", "pods"]).exits(2);
}
