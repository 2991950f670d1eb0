package api_test

import (
	"reflect"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func TestEachCountOfAChannelIsAdded(t *testing.T) {
	var sum, one api.ChannelCounts
	for _, f := range reflect.ValueOf(&one).Elem().Fields() {
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(3)
		default:
			f.SetUint(3)
		}
	}
	sum.Add(&one)
	if sum != one {
		t.Errorf("one added to nothing is %+v", sum)
	}
}
