package main

// dropMistakes are about the pace of what is read only to be dropped.
func dropMistakes() []mistake {
	return []mistake{
		{
			name: "drops: the rest of a body is read as fast as it comes", file: "pkg/server/conn.go",
			old: " || !drops.Wait(n, end)", with: "",
			tests: []string{"./pkg/server"}, run: "TestWhatIsDropped",
		},
		{
			name: "drops: the rest of a body is read as fast as it comes over HTTP", file: "pkg/admin/web/body.go",
			old: " || !h.Drops.Wait(int(n), end)", with: "",
			tests: []string{"./pkg/admin/web"}, run: "TestWhatIsDropped",
		},
		{
			name: "drops: each has the whole rate", file: "pkg/limit/drops.go",
			old: "	d.used = d.used.Add(", with: "	d.used = now.Add(",
			tests: []string{"./pkg/limit"}, run: "TestDrops",
		},
	}
}
