//! Names in tables: groups, aliases, ids and patterns.
use super::{Names, Resolved};

/// `names`: one a line, `group NAME`, `alias NAME -> GROUP`, `hidden NAME -> GROUP`, `id NAME -> GROUP PLACE`.
/// Groups are numbered by their lines.
fn names(names: &str) -> (Names, Vec<String>) {
    let (mut built, mut groups) = (Names::default(), Vec::new());
    for line in names.lines().map(str::trim) {
        let number = |groups: &[String], name: &str| groups.iter().position(|known| known == name).unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["group", name] => {
                built.add_group(name.into(), groups.len());
                groups.push(name.to_owned());
            }
            ["alias", name, "->", group] => built.add_alias(name.into(), number(&groups, group)),
            ["hidden", name, "->", group] => {
                built.add_alias(name.into(), number(&groups, group));
                built.hide_alias(name);
            }
            ["id", name, "->", group, place] => {
                built.add_id(name.into(), number(&groups, group), place.parse().unwrap());
            }
            _ => panic!("`{line}` is no name"),
        }
    }
    (built, groups)
}

/// `want`: one requested name a line, `NAME = GROUP`, then `#PLACE` for an id, then `[caught]` for each star;
/// `NAME = none` where nothing is meant.
fn check(known: &str, want: &str) {
    let (built, groups) = names(known);
    let told: Vec<String> = want
        .lines()
        .map(|line| {
            let name = line.trim().split_once('=').unwrap().0.trim();
            let stands_for = match built.resolve(name) {
                None => "none".to_owned(),
                Some(Resolved { group, only, caught }) => {
                    let place = only.map(|place| format!("#{place}")).unwrap_or_default();
                    let caught: String = caught.iter().map(|text| format!("[{text}]")).collect();
                    format!("{}{place} {caught}", groups[group]).trim().to_owned()
                }
            };
            format!("{name} = {stands_for}").trim().to_owned()
        })
        .collect();
    let want: Vec<&str> = want.lines().map(str::trim).collect();
    assert_eq!(told, want, "of {known}");
}

#[test]
fn a_group_hides_an_alias_and_an_alias_hides_an_id() {
    check(
        "group chat
         group other
         alias chat -> other
         alias nick -> chat
         id nick -> other 0
         id dep-a -> other 1
         id other -> chat 0",
        "chat = chat
         nick = chat
         dep-a = other#1
         other = other
         dep = none
         Chat = none",
    );
}

#[test]
fn every_other_name_comes_before_a_pattern() {
    check(
        "group *
         group gpt-4o
         alias gpt -> gpt-4o
         id gpt-x -> gpt-4o 2",
        "gpt-4o = gpt-4o
         gpt = gpt-4o
         gpt-x = gpt-4o#2
         gpt-y = * [gpt-y]",
    );
}

#[test]
fn the_longest_literal_part_wins_whatever_the_order_and_a_lone_star_comes_last() {
    check(
        "group *
         group **
         group openai/*
         group openai/gpt-*
         group */gpt-4o",
        "openai/gpt-4o = openai/gpt-* [4o]
         openai/o3 = openai/* [o3]
         azure/gpt-4o = */gpt-4o [azure]
         o3 = ** [o3][]
         openai/* = openai/*
         * = *",
    );
}

#[test]
fn equally_long_patterns_are_tried_in_the_order_of_their_insertion() {
    check("group a*\ngroup *b", "ab = a* [b]");
    check("group *b\ngroup a*", "ab = *b [a]");
}

#[test]
fn a_pattern_covers_the_whole_name() {
    check(
        "group *-mini
         group openai/*",
        "gpt-4o-mini = *-mini [gpt-4o]
         gpt-4o-mini-2024 = none
         my-openai/gpt = none
         openai/ = openai/* []",
    );
}

#[test]
fn several_stars_catch_from_left_to_right_and_earlier_ones_catch_more() {
    check(
        "group a*b*c",
        "abc = a*b*c [][]
         aXbYc = a*b*c [X][Y]
         axbybzc = a*b*c [xby][z]
         acb = none
         ac = none
         abcd = none
         xabc = none",
    );
    check("group **", "xy = ** [xy][]\n= ** [][]");
    check("group aa*aa", "aaa = none\naaaa = aa*aa []");
    check("group *a*a*", "aaa = *a*a* [a][][]");
}

#[test]
fn letters_of_any_script_are_caught_whole() {
    check(
        "group модель/*
         group *é*",
        "модель/мала = модель/* [мала]
         café-日本 = *é* [caf][-日本]
         e\u{301} = none",
    );
}

#[test]
fn a_lone_star_covers_the_empty_name_and_nothing_else_does() {
    check("group *", "= * []");
    check("group chat\nalias nick -> chat\ngroup c*", "= none");
}

#[test]
fn a_group_that_is_added_twice_keeps_its_last_number() {
    let mut names = Names::default();
    names.add_group("a*".into(), 0);
    names.add_group("a*".into(), 1);
    assert_eq!(names.resolve("ab").map(|resolved| resolved.group), Some(1));
}

#[test]
fn an_alias_of_a_caught_name_keeps_what_was_caught() {
    let (mut names, _) = names("group openai/*");
    let caught = names.resolve("openai/gpt-4o").unwrap();
    names.add_alias_as("smart".into(), caught.clone());
    assert_eq!(names.resolve("smart"), Some(caught.clone()));
    assert_eq!(caught.model_for("azure/*"), "azure/gpt-4o");
}

#[test]
fn the_stars_of_a_deployments_model_are_filled_one_after_another() {
    let caught = |caught: &[&str]| Resolved {
        group: 0,
        only: None,
        caught: caught.iter().map(|&text| text.to_owned()).collect(),
    };
    for (catches, model, want) in [
        (&["gpt-4o"][..], "openai/*", "openai/gpt-4o"),
        (&["gpt-4o"], "openai/gpt-3", "openai/gpt-3"),
        (&["a", "b"], "*/*-x", "a/b-x"),
        (&["a"], "*/*/*", "a/*/*"),
        (&["a", "b"], "x/*", "x/a"),
        (&[], "openai/*", "openai/*"),
        (&["*", "b"], "*-*", "*-b"),
        (&[""], "openai/*", "openai/"),
        (&["gpt"], "", ""),
    ] {
        assert_eq!(caught(catches).model_for(model), want, "{catches:?} into {model}");
    }
}

#[test]
fn what_is_listed_is_sorted_holds_each_name_once_and_no_hidden_alias() {
    let (names, _) = names(
        "group zeta
         group chat
         group openai/*
         alias nick -> chat
         alias zeta -> chat
         hidden secret -> chat
         id dep-a -> chat 0",
    );
    assert_eq!(names.public().collect::<Vec<_>>(), ["chat", "nick", "openai/*", "zeta"]);
    assert!(names.resolve("secret").is_some());
}

#[test]
fn near_names_are_few_similar_listed_and_the_nearest_comes_first() {
    let (names, _) = names(
        "group gpt-4o
         group gpt-4
         group gpt-4o-mini
         group gpt-4x
         group claude
         alias gpt-4oo -> gpt-4o
         hidden gpt-4q -> gpt-4o
         id gpt-4p -> claude 0",
    );
    for (asked, near) in [
        ("gtp-4o", &["gpt-4o", "gpt-4", "gpt-4oo"][..]),
        ("GPT-4O", &["gpt-4o", "gpt-4", "gpt-4oo"]),
        ("gpt-4o-mni", &["gpt-4o-mini"]),
        ("cluade", &["claude"]),
        ("mistral", &[]),
        ("", &[]),
    ] {
        assert_eq!(names.near(asked), near, "near {asked}");
    }
    assert!(names.near(&"gpt-4o".repeat(1_000_000)).is_empty());
}
