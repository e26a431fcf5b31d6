package changes_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// What changed at one end is brought to another, in three calls.
func Example() {
	ctx := context.Background()
	open := func() (*tree.Tree, *changes.Server) {
		forest := tree.New(tree.NewMemory(), tree.Config{})
		t, err := forest.Tree(ctx, tree.DefaultName)
		if err != nil {
			log.Fatal(err)
		}
		return t, changes.New(changes.Config{Workspace: changes.Plain(forest, t)})
	}
	here, ours := open()
	there, theirs := open()
	if _, err := here.WriteFile(ctx, "/src/hello", strings.NewReader("hello\n"), tree.File{}); err != nil {
		log.Fatal(err)
	}

	fetch, err := ours.FetchChanges(ctx, changes.FetchQuery{})
	if err != nil {
		log.Fatal(err)
	}
	entries, err := changes.Collect(ctx, fetch.Entries)
	if err != nil {
		log.Fatal(err)
	}
	var hashes []tree.Hash
	for _, e := range entries {
		fmt.Println(e.Kind, e.Path)
		for _, p := range e.Parts {
			hashes = append(hashes, p.Hash)
		}
	}
	objects, err := ours.FetchObjects(ctx, hashes)
	if err != nil {
		log.Fatal(err)
	}
	if err := theirs.PushObjects(ctx, objects); err != nil {
		log.Fatal(err)
	}
	done, err := theirs.Push(ctx, changes.PushInput{SenderRev: fetch.Current.Rev}, changes.FromSlice(entries))
	if err != nil {
		log.Fatal(err)
	}
	text, err := there.ReadFile(ctx, "/src/hello", 100)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s(all is there: %t)\n", text, done.AppliedPushCursor == fetch.Current)
	// Output:
	// dir /src
	// file /src/hello
	// hello
	// (all is there: true)
}
