use serde_json::{Value, json};

use super::support::Store;

/// A small pool and a large one, and hosts with names that want to be something else.
fn filled() -> Store {
    let store = Store::new();
    store
        .apply(
            "IPPool",
            "small",
            &json!({ "cidr": "10.88.0.0/24", "blockSize": 28, "nodeSelector": "!has(big)" }),
        )
        .exits(0);
    store.apply("IPPool", "large", &json!({ "cidr": "10.64.0.0/16", "nodeSelector": "has(big)" })).exits(0);
    for host in ["n1", "n2", "n3"] {
        store.add(&format!("of-{host}"), &store.network(host, &json!([])));
    }
    let mut node = super::support::resource("Node", "big", &json!({}));
    node["metadata"]["labels"] = json!({ "big": "yes" });
    store.run_with(&["apply", "-f", "-"], &node.to_string()).exits(0);
    store.add("of-big", &store.network("big", &json!([])));
    store
}

/// The elements of a drawing, and whether each that is opened is closed.
fn elements(svg: &str) -> usize {
    let mut open = Vec::new();
    let mut seen = 0;
    for tag in svg.split('<').skip(1) {
        let tag = tag.split_once('>').unwrap_or_else(|| panic!("`<{tag}` is not closed")).0;
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in another order");
        } else {
            seen += 1;
            if !tag.ends_with('/') {
                open.push(tag.split([' ', '\n']).next().unwrap_or_default());
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    seen
}

#[test]
fn an_svg_is_whole_and_names_what_it_shows() {
    let store = filled();
    let small = store.run(&["ipam", "map", "--pool=small", "-o", "svg"]);
    small.exits(0);
    assert!(small.out.starts_with("<svg xmlns="), "{small:?}");
    assert!(elements(&small.out) > 20);
    for name in ["10.88.0.0/24", "prod/of-n1", ">n2</text>", "10.88.0.224/28"] {
        assert!(small.out.contains(name), "{name}: {}", small.out);
    }
    let large = store.run(&["ipam", "map", "--pool=10.64.0.0/16", "-o", "svg"]);
    assert!(elements(&large.out) > 20);
    assert!(large.out.contains("1 of 64 in use (2%)"), "{}", large.out);
    store.run(&["ipam", "map", "-o", "svg"]).says(
        2,
        "error: the choice of pools for SVG is `large, small`; expected one of them: use `--pool`\n",
    );
}

#[test]
fn a_page_needs_nothing_from_anywhere() {
    let store = filled();
    let page = store.run(&["ipam", "map", "-o", "html"]);
    page.exits(0);
    assert!(page.out.starts_with("<!DOCTYPE html>\n"), "{page:?}");
    assert_eq!(page.out.matches("<svg ").count(), 2);
    let links = page.out.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "href=", "@import"] {
        assert!(!links.contains(outside), "{outside}");
    }
    for host in ["n1", "n2", "n3", "big"] {
        assert!(page.out.contains(&format!("</i>{host}</td>")), "{host}");
    }
}

#[test]
fn a_name_from_outside_is_text_in_a_picture() {
    let store = Store::new();
    store.apply("IPPool", "p", &json!({ "cidr": "10.88.0.0/26" })).exits(0);
    let network = store.network("n1", &json!([]));
    let mut command = super::support::program();
    command.envs([
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c"),
        ("CNI_NETNS", "/var/run/netns/none"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=</title><script>;K8S_POD_NAME=\"&\u{1b}[2J"),
    ]);
    let added = super::support::feed(&mut command, &network.to_string());
    assert!(added.status.success(), "{added:?}");
    for look in ["svg", "html"] {
        let drawn = store.run(&["ipam", "map", "-o", look]);
        drawn.exits(0);
        assert!(drawn.out.contains("&lt;/title&gt;&lt;script&gt;/&quot;&amp;\\u{1b}[2J"), "{}", drawn.out);
    }
}

#[test]
fn a_map_for_programs_has_every_tile_in_its_place() {
    let store = filled();
    let document: Value = store.run(&["ipam", "map", "--pool=large", "-o", "json"]).json();
    let pool = &document["pools"][0];
    assert_eq!(
        (&pool["width"], &pool["height"], &pool["addressesPerCell"]),
        (&json!(32), &json!(32), &json!(64))
    );
    let tiles = pool["tiles"].as_array().expect("tiles");
    assert_eq!(tiles.len(), 1);
    assert_eq!((&tiles[0]["host"], &tiles[0]["what"]), (&json!("big"), &json!("blocks")));
}

/// What people carved out of a pool of addresses, of one of blocks, and a child pool in it with a block of its own.
fn carved() -> Store {
    let store = filled();
    let allocation = |name: &str, pool: &str, length: &str| {
        let mut made = json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPAllocation", "metadata": { "name": name },
            "spec": { "ipFamily": "IPv4", "poolRef": { "name": pool } },
        });
        made["metadata"]["annotations"] = json!({ "ipam.miloapis.com/prefix-length": length });
        store.run_with(&["apply", "-f", "-"], &made.to_string()).exits(0);
    };
    allocation("lb", "small", "29");
    allocation("vips", "large", "20");
    allocation("one", "large", "32");
    store
}

#[test]
fn what_people_carved_out_is_on_the_map() {
    let store = carved();
    let tiles = |pool: &str| {
        let document: Value = store.run(&["ipam", "map", &format!("--pool={pool}"), "-o", "json"]).json();
        let all = document["pools"][0]["tiles"].as_array().cloned().expect("tiles");
        all.into_iter().filter(|tile| tile["what"] == "carved").collect::<Vec<_>>()
    };
    let small = tiles("small");
    assert_eq!(small.len(), 1, "{small:?}");
    let document: Value = store.run(&["ipam", "map", "--pool=small", "-o", "json"]).json();
    let within = |tile: &&Value| tile["what"] == "reserved" && tile["title"] == "10.88.0.0\nreserved";
    assert_eq!(document["pools"][0]["tiles"].as_array().expect("tiles").iter().filter(within).count(), 0);
    let area = |tile: &Value| tile["width"].as_u64().zip(tile["height"].as_u64()).map(|(w, h)| w * h);
    assert_eq!(area(&small[0]), Some(8));
    assert!(
        small[0]["title"].as_str().is_some_and(|title| title.ends_with("carved out for IPAllocation `lb`"))
    );
    let large: Vec<_> = tiles("large").iter().map(area).collect();
    // A cell is 64 addresses.
    assert!(large.contains(&Some(64)) && large.contains(&Some(1)) && large.len() == 2, "{large:?}");
    let text = store.run(&["ipam", "map", "--pool=small"]);
    assert_eq!(text.exits(0).out.matches(" #").count(), 8 + 1, "the key has one too: {}", text.out);
    assert!(text.out.contains(", 8 carved out, "), "{}", text.out);
    let svg = store.run(&["ipam", "map", "--pool=small", "-o", "svg"]).exits(0).out.clone();
    assert!(svg.contains("IPAllocation `lb`") && svg.contains(">carved out</text>"), "{svg}");
    assert!(elements(&svg) > 20);
}

#[test]
fn the_metrics_of_a_pool_add_up_to_its_size() {
    let store = carved();
    let metrics = store.run(&["ipam", "metrics"]).exits(0).out.clone();
    for (pool, size) in [("small", 256), ("large", 65_536)] {
        let of_pool = |line: &&str| line.starts_with(&format!("host_affine_pool_addresses{{pool=\"{pool}\""));
        let values = metrics.lines().filter(of_pool).map(|line| line.rsplit_once(' ').expect("a value").1);
        assert_eq!(
            values.map(|value| value.parse::<u64>().expect("a number")).sum::<u64>(),
            size,
            "{metrics}"
        );
    }
    assert!(metrics.contains("cidr=\"10.64.0.0/16\",state=\"carved\"} 4097\n"), "{metrics}");
}
