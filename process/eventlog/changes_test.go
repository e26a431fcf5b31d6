package eventlog

import "testing"

func TestChanges(t *testing.T) {
	var c Changes
	c.Announce() // nobody waits
	a, b := c.Next(), c.Next()
	select {
	case <-a:
		t.Fatal("an old change is told")
	default:
	}
	c.Announce()
	<-a
	<-b
	select {
	case <-c.Next():
		t.Error("a change is told twice")
	default:
	}
}
