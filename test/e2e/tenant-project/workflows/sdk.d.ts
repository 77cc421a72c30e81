/// <reference types="baton/workflow" />
