// Package s3 checks backups in a bucket with an S3 service that others made, the Versity gateway. It is a
// module of its own: the service has many others below it.
package s3
