"""What Google's services answer while something is not known everywhere yet, or is forbidden, in their own words.

`shared/signalbox_tools/deploy/google_refusals.py` names where each was documented or reported.
"""

API = (
    "googleapi: Error 403: {api} API has not been used in project 1 before or it is disabled. Enable it, "
    "then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our "
    "systems and retry., accessNotConfigured"
)
ACCOUNT = "googleapi: Error 400: Service account {member} does not exist., badRequest"
MEMBERS = (
    "Error setting IAM policy for cloudrun service: googleapi: Error 400: One or more users named in the policy do not "
    "belong to a permitted customer, perhaps due to an organization policy."
)
CONTENTION = "googleapi: Error 409: too much contention on these datastore entities. please try again."
QUEUE_NAME = (
    "Error creating Queue: googleapi: Error 400: The queue cannot be created because a queue with this name existed "
    "too recently."
)
QUOTA = (
    "Error creating function: googleapi: Error 429: Quota exceeded for quota metric 'Per project mutation requests' "
    "and limit 'Per project mutation requests per minute per region' of service 'cloudfunctions.googleapis.com'"
)
REGION = (
    "Error creating function: googleapi: Error 400: failed precondition: due to quota restrictions, cannot run builds "
    "in this region. Please contact support"
)
EVENTARC = (
    "Error creating function: googleapi: Error 400: Validation failed for trigger projects/p/locations/l/triggers/t: "
    'Invalid resource state for "": Permission denied while using the Eventarc Service Agent. If you recently started '
    "to use Eventarc, it may take a few minutes before all necessary permissions are propagated to the Service Agent."
)
REPOSITORY = (
    "Error creating function: googleapi: Error 403: Unable to retrieve the repository metadata for "
    "projects/p/locations/l/repositories/r. Ensure that the Cloud Functions service account has "
    "'artifactregistry.repositories.list' and 'artifactregistry.repositories.get' permissions."
)
SOURCES = (
    "Error waiting to create function: Error waiting for Creating function: Error code 13, message: Build failed with "
    "status: FAILURE and message: failed to Fetch: failed to download archive gs://gcf-v2-sources-1-l/x.zip: Access to "
    "bucket gcf-v2-sources-1-l denied. You must grant Storage Object Viewer permission to {builder}."
)
METRIC = (
    "Error creating Slo: googleapi: Error 404: Cannot find metric(s) that match type = "
    '"logging.googleapis.com/user/{metric}". If a metric was created recently, it could take up to 10 minutes to '
    "become available. Please try again soon."
)
UNAVAILABLE = "googleapi: Error 503: The service is currently unavailable., backendError"
