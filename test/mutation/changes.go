package main

// changeMistakes concern which parts handle a change of the metadata.
func changeMistakes() []mistake {
	const topics, core = "pkg/meta/topics.go", "pkg/cluster/controller/core.go"
	controller := []string{"./pkg/cluster/controller"}
	return []mistake{
		{
			name: "a change of a topic changes states that were handed out", file: topics,
			old: "\t\tnext := slices.Clone(s.pages[at])\n\t\tnext[place] = t\n", with: "\t\tnext := s.pages[at]\n\t\tnext[place] = t\n",
			tests: metadataTests,
		},
		{
			name: "what changed is looked for in all topics", file: topics,
			old: "if a[0].same(b[0]) {", with: "if false {",
			tests: metadataTests,
		},
		{
			name: "a page with other topics is taken for the same", file: topics,
			old: "len(p) == len(q) && &p[0] == &q[0]", with: "len(p) == len(q) && p[0] == q[0]",
			tests: metadataTests,
		},
		{
			name: "a topic that moves is not counted where it goes", file: topics,
			old: "return slices.Equal(p.Replicas, q.Replicas)", with: "return len(p.Replicas) == len(q.Replicas)",
			tests: metadataTests,
		},
		{
			name: "a node that changes is no work on topics", file: "pkg/host/follow.go",
			old: "if meta.SameNodes(was, is) && ", with: "if is.NodeCount() == was.NodeCount() && ",
			tests: []string{"./pkg/host"}, run: "TestChangeConvergesOnlyChangedTopics",
		},
		{
			name: "the controller rests though a partition has no leader", file: core,
			old: "c.nodes[p.Leader] < Full || ", with: "",
			tests: controller,
		},
		{
			name: "the controller rests though a move has ended", file: core,
			old: "was != nil && !c.quiet(s, was) || ", with: "was != nil && is == nil && !c.quiet(s, was) || ",
			tests: controller,
		},
		{
			name: "the controller rests though replicas are lacking", file: core,
			old: " || lacks(t, &p)", with: "",
			tests: controller,
		},
		{
			name: "the controller looks at all topics at every change", file: core,
			old: " && c.rests(s, nodes) {", with: " && c.seen.Index() == s.Index() && c.rests(s, nodes) {",
			tests: controller,
		},
	}
}
